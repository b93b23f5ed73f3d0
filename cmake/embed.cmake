# Writes a C++ file that holds a file's bytes:
#   cmake -DINPUT=web/dist/report.html -DOUTPUT=page_template.cpp -P embed.cmake
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)"
       "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"winnow/report/page.h\"

namespace winnow {
namespace {

constexpr unsigned char kPage[] = {
${bytes}
};

}  // namespace

std::string_view page_template() {
  return {reinterpret_cast<const char*>(kPage), sizeof kPage};
}

}  // namespace winnow
")
