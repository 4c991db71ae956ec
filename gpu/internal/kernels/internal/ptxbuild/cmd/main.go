// Command cmd compiles the kernels in the current directory: make ptx.
package main

import (
	"fmt"
	"os"

	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels/internal/ptxbuild"
)

func main() {
	if err := ptxbuild.Update("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
