package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const sample = `package main

import "fmt"

type counter struct{ n int }

func (c *counter) add(ns ...int) (sum int) {
	for _, n := range ns {
		c.n += n
	}
	return c.n
}

func (counter) name(_, int string) string { return "right" }

func main() {
	var c counter
	fmt.Println(c.add(1, 2), c.name("", ""))
	fmt.Println("end")
}
`

// TestSwitch runs a program with faults behind switches: no fault, a fault in each method,
// and a fault in a function without results.
func TestSwitch(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []planted{
		{name: "add", file: "main.go", old: "c.n += n\n", new: "c.n -= n\n"},
		{name: "add twice", file: "main.go", old: "return c.n", new: "return 2 * c.n"},
		{name: "name", file: "main.go", old: `return "right"`, new: `return "wrong"`},
		{name: "main", file: "main.go", old: "\tfmt.Println(\"end\")\n", new: ""},
		{name: "all", file: "main.go", old: "range ns {", new: "range ns[1:] {", parts: []string{"add twice", "name"}, also: []planted{{file: "main.go", old: "\tfmt.Println(\"end\")\n"}}},
	}
	out := t.TempDir()
	files, err := writeSwitches(dir, out, all)
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, path := range files {
		args = append(args, path)
	}
	program := filepath.Join(out, "program")
	if b, err := exec.Command("go", append([]string{"build", "-o", program}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for number, want := range map[string]string{"": "3 right\nend\n", "0": "-3 right\nend\n", "1": "6 right\nend\n", "2": "3 wrong\nend\n", "3": "3 right\n", "4": "4 wrong\n"} {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), plantedVariable+"="+number)
		if b, err := cmd.Output(); err != nil || string(b) != want {
			t.Errorf("fault %q: %q, %v, want %q", number, b, err, want)
		}
	}
	for _, bad := range []planted{{file: "main.go", old: "type counter"}, {file: "main.go", old: "fmt.Println"}, {file: "none.go", old: "x"}, {parts: []string{"none"}}} {
		if _, err := writeSwitches(dir, out, []planted{bad}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if _, err := writeSwitches("../..", out, listSimulated(regexp.MustCompile(""))); err != nil {
		t.Errorf("the faults of the simulation: %v", err)
	}
}

// TestNotes: each note is about a fault.
func TestNotes(t *testing.T) {
	names := map[string]bool{}
	for _, p := range listSimulated(regexp.MustCompile("")) {
		names[p.name] = true
	}
	for name := range notes {
		if !names[name] {
			t.Errorf("a note about %q, which is no fault", name)
		}
	}
}

// TestTable writes a table, changes a row, and reads the table.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	all := []planted{{name: "b"}, {name: "a"}, {name: "c"}}
	first, err := readTable(path)
	if err != nil {
		t.Fatal(err)
	}
	first.setRow(history{Fault: "a", Found: true, Histories: 3, CPU: 1.2, Failure: "1 lost, 0 duplicated"}, "v1")
	first.setRow(history{Fault: "b", Histories: 99, CPU: 120}, "v1")
	first.setRow(history{Fault: "removed from the list"}, "v1")
	if err := first.writeTable(path, all); err != nil {
		t.Fatal(err)
	}
	got, err := readTable(path)
	if err != nil || len(got) != 2 || got["b"] != (row{"no", "99", "120", "not explained", "v1"}) {
		t.Errorf("%+v, %v", got, err)
	}
	text, err := os.ReadFile(path)
	if want := strings.Join(tableHead[:4], ","); err != nil || !strings.HasPrefix(string(text), want) || !strings.Contains(string(text), "\na,yes,3,2,\"1 lost, 0 duplicated\",v1\n") {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(path, []byte("fault,found\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTable(path); err == nil {
		t.Error("a table with other columns is accepted")
	}
}
