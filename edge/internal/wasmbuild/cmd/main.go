// Command cmd compiles c/wasm.c of the folder that it is run in; see package wasmbuild.
package main

import (
	"fmt"
	"os"

	"github.com/eusn-stream/eusn-stream/edge/internal/wasmbuild"
)

func main() {
	if err := wasmbuild.Update("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
