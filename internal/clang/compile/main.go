// Command compile compiles the module "ptx" or "wasm" in the current directory.
package main

import (
	"fmt"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/clang"
)

func main() {
	if err := map[string]*clang.Module{"ptx": &clang.PTX, "wasm": &clang.Wasm}[os.Args[1]].Update("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
