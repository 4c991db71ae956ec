package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// runNative runs the jobs on this machine as the emulated machine would, and returns
// their output.
func runNative(ctx context.Context, root string, chosen []job) (string, error) {
	var output strings.Builder
	for _, j := range chosen {
		program, err := filepath.Abs(filepath.Join(root, j.name))
		if err != nil {
			return "", err
		}
		c := exec.CommandContext(ctx, program, strings.Fields(j.args)...)
		c.Dir, c.Env = root, append(os.Environ(), "EUSN_REQUIRE=avx512")
		out, err := c.CombinedOutput()
		output.Write(out)
		if err != nil {
			fmt.Fprintf(&output, "== failed %s: %v\n", j.name, err)
			continue
		}
		fmt.Fprintln(&output, "== passed", j.name)
		fmt.Println("passed on this machine:", j.name)
	}
	output.WriteString("== end\n")
	return output.String(), ctx.Err()
}
