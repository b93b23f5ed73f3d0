# Writes a C++ file that holds a file's bytes:
#   cmake -DINPUT=web/dist/report.html -DOUTPUT=page_template.cpp -DNAME=page_template -P embed.cmake
# NAME is a function of winnow/report/page.h that returns them.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)"
       "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"winnow/report/page.h\"

namespace winnow {
namespace {

constexpr unsigned char k_${NAME}[] = {
${bytes}
};

}  // namespace

std::string_view ${NAME}() {
  return {reinterpret_cast<const char*>(k_${NAME}), sizeof k_${NAME}};
}

}  // namespace winnow
")
