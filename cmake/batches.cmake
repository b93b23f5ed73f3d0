# Compiles the sources of a target in batches of one room each. A batch pays once for what its files
# share (LibTorch's precompiled header takes two seconds to load), so that a clean build takes a third of
# the time. Files of a batch see each other's unnamed namespaces: their names must differ.
#   -DWINNOW_BATCH=0    compile every file by itself
set(WINNOW_BATCH 20 CACHE STRING "How many files of a room are compiled together; 0: none")

function(winnow_batches target)
  if(WINNOW_BATCH EQUAL 0)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
                        UNITY_BUILD_UNIQUE_ID WINNOW_BATCH_ID)
  foreach(source ${ARGN})
    # The layer, or a room of it as method/robust, but no folder of one method: most are two files.
    file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "^winnow/" "" path ${path})
    string(REGEX REPLACE "/[^/]*$" "" path ${path})
    string(REGEX REPLACE "^([^/]*/[^/]*)/.*$" "\\1" path ${path})
    string(REPLACE "/" "_" layer ${path})
    if(NOT DEFINED count_${layer})
      set(count_${layer} 0)
    endif()
    math(EXPR batch "${count_${layer}} / ${WINNOW_BATCH}")
    math(EXPR count_${layer} "${count_${layer}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${layer}_${batch})
  endforeach()
endfunction()
