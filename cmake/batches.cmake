# Compiles the sources of a target in batches of one room each; a room of few files goes with its layer. A batch pays
# once for what its files share (LibTorch's precompiled header takes two seconds to load), so that a clean build takes
# a third of the time. Files of a batch see each other's unnamed namespaces: their names must differ.
#   -DWINNOW_BATCH=0    compile every file by itself
set(WINNOW_BATCH 20 CACHE STRING "How many files of a room are compiled together; 0: none")

# The layer of a source file, or a room of it as method_robust, but no folder of one method: most are two files.
function(winnow_room source result)
  file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${source})
  string(REGEX REPLACE "^winnow/" "" path ${path})
  string(REGEX REPLACE "/[^/]*$" "" path ${path})
  string(REGEX REPLACE "^([^/]*/[^/]*)/.*$" "\\1" path ${path})
  string(REPLACE "/" "_" path ${path})
  set(${result} ${path} PARENT_SCOPE)
endfunction()

function(winnow_batches target)
  if(WINNOW_BATCH EQUAL 0)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
                        UNITY_BUILD_UNIQUE_ID WINNOW_BATCH_ID)
  foreach(source ${ARGN})
    winnow_room(${source} room)
    math(EXPR files_${room} "0${files_${room}} + 1")
  endforeach()
  foreach(source ${ARGN})
    winnow_room(${source} room)
    if(files_${room} LESS 8)
      string(REGEX REPLACE "_.*$" "" room ${room})
    endif()
    math(EXPR batch "0${count_${room}} / ${WINNOW_BATCH}")
    math(EXPR count_${room} "0${count_${room}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${batch})
  endforeach()
endfunction()
