// Package parts ends tests if this machine lacks an external part (a program, data, an
// instruction set): with a message, and as a failure if the list EUSN_REQUIRE
// ("numpy,avx2") names the part. It also starts programs. Only tests import the package.
package parts

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Required reports whether EUSN_REQUIRE names the part.
func Required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part)
}

// Absent skips a test that lacks the part, or fails the test if the part is
// required. format reports the missing part and the way to get it.
func Absent(t testing.TB, part, format string, args ...any) {
	t.Helper()
	if Required(part) {
		t.Fatalf("EUSN_REQUIRE names "+part+": "+format, args...)
	}
	t.Skipf("NOT CHECKED, "+part+" absent: "+format, args...)
}

// Accuracy reports whether EUSN_ACCURACY, a list of data sets or "all", includes the
// accuracy test of this data set, which takes minutes for some sets.
func Accuracy(dataset string) bool {
	list := strings.Split(os.Getenv("EUSN_ACCURACY"), ",")
	return slices.Contains(list, dataset) || slices.Contains(list, "all")
}

// RequireModule returns the path of a folder of the repository in which npm has installed
// a module, for programs of Node. If node or the module is missing, RequireModule ends
// the test with the command to install the module; flags are flags of npm ci.
func RequireModule(t testing.TB, part, folder, module, flags string) string {
	t.Helper()
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if _, none := os.Stat(filepath.Join(root, "go.mod")); none == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("the test is not in the repository: there is no go.mod above it")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, filepath.FromSlash(folder))
	if _, err := exec.LookPath("node"); err != nil {
		Absent(t, part, "no node: the programs in %s are not run", folder)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", filepath.FromSlash(module))); err != nil {
		Absent(t, part, "%s is not installed: npm ci%s --prefix %s", module, flags, folder)
	}
	return dir
}

// StartProgram starts a program with pipes to its standard input and output. The program is killed
// at the end of the test.
func StartProgram(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return in, out
}
