package parts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

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
