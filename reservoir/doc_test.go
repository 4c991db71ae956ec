package reservoir

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocIsEnoughToRebuild compares the package's documentation, printed by "go
// doc", with the code. The text is enough to rebuild a model's arithmetic: the
// generator's constants, the numbers of its sequences, the accumulation of
// squares, and the tensors in file order.
func TestDocIsEnoughToRebuild(t *testing.T) {
	raw, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	want := []string{
		fmt.Sprintf("%#x", uint64(golden)), "z *= 0xbf58476d1ce4e5b9", "z *= 0x94d049bb133111eb",
		fmt.Sprintf("tensor    %d scales, %d recurrent, %d input, %d bias, %d subset", tensorScales, tensorRecurrent, tensorInput, tensorBias, tensorSubset),
		fmt.Sprintf("%d eps, %d gamma, %d recurrent or eps_rho, %d input, %d bias, %d spectral radius, %d leak",
			scaleEps, scaleGamma, scaleRecurrent, scaleInput, scaleBias, scaleRadius, scaleLeak),
		"square low = fma(h', h', square low)", "eusn.sha256", "keep*h is rounded by itself",
	}
	for _, f := range AllFeatures {
		want = append(want, string(f)+" ")
	}
	for _, text := range want {
		if !strings.Contains(doc, text) {
			t.Errorf("doc.go lacks %q", text)
		}
	}
	counted := regexp.MustCompile(`\.\d+\.`)
	rest := doc[strings.Index(doc, "# The model file"):]
	seen := map[string]bool{}
	for _, tensor := range testModel(t).tensors() {
		letter := ".R."
		if strings.HasPrefix(tensor.name, "readout") {
			letter = ".K."
		}
		name := counted.ReplaceAllString(tensor.name, letter)
		if seen[name] {
			continue
		}
		seen[name] = true
		at := strings.Index(rest, name)
		if at < 0 {
			t.Errorf("doc.go has no tensor %s behind those before it in a file", name)
			continue
		}
		rest = rest[at+len(name):]
	}
}
