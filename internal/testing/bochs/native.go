package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// native runs the jobs on this machine, as the emulated one would, and returns
// what they wrote.
func native(ctx context.Context, root string, chosen []job) (string, error) {
	var said strings.Builder
	for _, j := range chosen {
		program, err := filepath.Abs(filepath.Join(root, j.name))
		if err != nil {
			return "", err
		}
		c := exec.CommandContext(ctx, program, strings.Fields(j.args)...)
		c.Dir, c.Env = root, append(os.Environ(), "EUSN_REQUIRE=avx512")
		out, err := c.CombinedOutput()
		said.Write(out)
		if err != nil {
			fmt.Fprintf(&said, "== failed %s: %v\n", j.name, err)
			continue
		}
		fmt.Fprintln(&said, "== passed", j.name)
		fmt.Println("passed on this machine:", j.name)
	}
	said.WriteString("== end\n")
	return said.String(), ctx.Err()
}
