package kernels

//go:generate go run ./internal/ptxbuild/cmd
