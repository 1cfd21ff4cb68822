# cmake -DFOLDER=metal -DOUT=file.cpp -P embed.cmake: every file of the folder as a string of a C++ file.
file(GLOB files ${FOLDER}/*.h ${FOLDER}/*.metal)
file(WRITE ${OUT}.new "#include <string_view>\nnamespace muser::metal {\nstruct SourceFile { std::string_view name, text; };\n"
  "extern const SourceFile kSourceFiles[];\nconst SourceFile kSourceFiles[] = {\n")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  file(APPEND ${OUT}.new "{\"${name}\", R\"metal(${text})metal\"},\n")
endforeach()
file(APPEND ${OUT}.new "{}};\n} // namespace muser::metal\n")
file(RENAME ${OUT}.new ${OUT})
