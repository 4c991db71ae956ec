package edge

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/clang"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestModuleIsOfItsSources finds changes of the sources without make wasm, on every
// machine, and compares the compiled bytes on machines with the compiler.
func TestModuleIsOfItsSources(t *testing.T) {
	if err := clang.Wasm.Check("."); err != nil {
		t.Error(err)
	}
	if !clang.Installed(clang.Compiler) || !clang.Installed(clang.Linker) {
		parts.Absent(t, "lld", "the module is not compared with its sources: %s and %s %s are not here", clang.Compiler, clang.Linker, clang.Version)
	}
	got, err := clang.Wasm.Compile(".")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, module) {
		t.Error("the sources compile to another module than eusn.wasm; run: make wasm")
	}
}

// TestPageBits runs the page's script under node, for every kind of model, and compares
// states, scores, classes and probabilities with the Go engine.
func TestPageBits(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		parts.Absent(t, "node", "node is not installed: pages are not run")
	}
	for name, m := range models(t) {
		if m.Front != nil {
			continue // refused
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var html bytes.Buffer
			if _, err := HTML(&html, m, Options{}); err != nil {
				t.Fatal(err)
			}
			_, core, ok := strings.Cut(html.String(), `<script id="core">`)
			core, _, end := strings.Cut(core, "</script>")
			if !ok || !end {
				t.Fatal("the page has no script core")
			}
			c, sum := m.Network.Spec.Channels, uint32(0)
			var all [][]float32
			var bits [][]uint32
			for _, s := range series(m) {
				if len(s) == 0 {
					continue // the page requires a sample
				}
				b := make([]uint32, len(s))
				for i, x := range s {
					b[i] = math.Float32bits(x)
				}
				all, bits = append(all, s), append(bits, b)
				if engine.CheckInputs(s, c) != nil {
					sum++
				}
			}
			if sum == 0 {
				t.Fatal("no series has a sample that is refused: the test has lost its subject")
			}
			data, err := json.Marshal(bits)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "run.cjs"), []byte(core+`
const hex = (u) => (u >>> 0).toString(16).padStart(8, "0");
const bits = (x) => new Uint32Array(Float32Array.of(x).buffer)[0];
model.start().then(() => {
  for (const s of `+string(data)+`) {
    const r = model.classify(new Float32Array(Uint32Array.from(s).buffer));
    let hash = 2166136261;
    for (const w of model.words()) hash = Math.imul(hash ^ w, 16777619);
    const last = about.number ? Math.fround(Math.fround(r.value + r.low) + r.high) : r.probability;
    console.log([hash, ...[...r.scores].map(bits), r.class + (r.abstains || !about.abstains ? 0 : 2 ** 31), bits(last)].map(hex).join(" "));
  }
  console.log("end");
});
`))
			want := expectedLines(t, m, all, math.MaxInt)
			if m.Readouts[0].Coverage != nil { // the page has no sets
				for i, line := range want[:len(want)-1] {
					f := strings.Fields(line)
					k := len(f) - 2
					f[k] = f[k][:1] + "00000" + f[k][6:]
					want[i] = strings.Join(f, " ")
				}
			}
			compareOutput(t, device{run: []string{node}}, filepath.Join(dir, "run.cjs"), slices.Clone(want))
		})
	}
}
