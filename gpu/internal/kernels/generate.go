package kernels

//go:generate go run ../../../internal/clang/compile ptx
