module effectively-once/toolchain/pause

go 1.26.0
