# Writes what the program prints of itself, the manual page and the completion of shells, into a folder:
#   cmake -DPROGRAM=build/release/winnow -DOUTPUT=build/release/texts -P texts.cmake
file(MAKE_DIRECTORY ${OUTPUT})
function(write_text file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
write_text(winnow.1 manual)
write_text(winnow completion bash)
write_text(_winnow completion zsh)
write_text(winnow.fish completion fish)
