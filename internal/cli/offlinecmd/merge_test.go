package offlinecmd_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// TestMergeClasses: train and evaluate name a fault that has the healthy class's samples; with both
// merged, healthy data are right. The class of the merged model has the name of the healthy class.
func TestMergeClasses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, seed uint64) string {
		r := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		b.WriteString("stream,x,end,label\n")
		for k := range 90 {
			class := []string{"normal", "ghost", "shift"}[k%3]
			for i := range 8 {
				v := r.NormFloat64()
				if class == "shift" {
					v += 6
				}
				end := 0
				if i == 7 {
					end = 1
				}
				fmt.Fprintf(&b, "s%d,%.4f,%d,%s\n", k, v, end, class)
			}
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, later, model := write("first.csv", 1), write("later.csv", 2), filepath.Join(dir, "m.safetensors")
	train := []string{"train", first, "--bank", "tiny", "--output", model}
	test := []string{"evaluate", later, "--model", model}
	const like = "warning: ghost can hardly be distinguished from normal"
	if r := clitest.Must(t, train...); !strings.Contains(r.ErrOut, like) || !strings.Contains(r.ErrOut, `--merge-classes "ghost=normal"`) {
		t.Errorf("train prints\n%s", r.ErrOut)
	}
	if r := clitest.Must(t, test...); !strings.Contains(r.ErrOut, like) {
		t.Errorf("evaluate prints\n%s", r.ErrOut)
	}
	merge := []string{"--merge-classes", "ghost=normal"}
	if r := clitest.Must(t, append(train, merge...)...); strings.Contains(r.ErrOut, like) {
		t.Errorf("train of merged classes prints\n%s", r.ErrOut)
	}
	clitest.Exec(t, t.Context(), test...).Want(t, cli.ExitIntegrity, `class "ghost" of recording`)
	var ev offline.Evaluation
	clitest.Must(t, append(append(test, merge...), "--json")...).Parse(t, &ev)
	if got := fmt.Sprint(ev.Classes); got != "[normal shift]" || ev.Labeled != 90 || ev.Accuracy < .97 {
		t.Errorf("classes %s, %d labeled sequences, accuracy %v", got, ev.Labeled, ev.Accuracy)
	}
	for want, value := range map[string]string{
		`no class "gohst", which is to count as "normal"`: "gohst=normal",
		`want classes and the class that they count as`:   "ghost",
		`want each class once`:                            "ghost,ghost=normal",
	} {
		if r := clitest.Exec(t, t.Context(), append(train, "--merge-classes", value)...); r.Code == 0 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("--merge-classes %s: exit code %d, %s, want %q", value, r.Code, r.ErrOut, want)
		}
	}
	clitest.Exec(t, t.Context(), append(train, "--merge-classes", "ghost=shift", "--merge-classes", "shift=normal")...).Want(t, cli.ExitUsage, `class "shift" counts as another class`)
}
