package figures

import (
	"bytes"
	"strings"
	"testing"
)

const table4 = `task,length,model,accuracy,deviation,draws,units
"a, b",200,eusn,0.9,0.05,10,100
"a, b",30,eusn,1,0,10,100
"a, b",30,esn,0.5,0.125,10,100
Synthetic,30,esn,0.25,0.25,10,100
`

func TestMemory(t *testing.T) {
	f, err := ReadMemory(strings.NewReader(table4))
	if err != nil {
		t.Fatal(err)
	}
	want := `task,model,length,accuracy,deviation,band_low,band_high
"a, b",eusn,30,1,0,1,1
"a, b",eusn,200,0.9,0.05,0.85,0.9500000000000001
"a, b",esn,30,0.5,0.125,0.375,0.625
Synthetic,esn,30,0.25,0.25,0,0.5
`
	if got := string(f.CSV()); got != want {
		t.Errorf("CSV:\n%s\nwant:\n%s", got, want)
	}
	svg, err := f.Picture().SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a, b", "Synthetic", "EuSN", "ESN", "length T, samples", "one standard deviation"} {
		if !bytes.Contains(svg, []byte(text)) {
			t.Errorf("the picture lacks %q", text)
		}
	}
	if bytes.Contains(svg, []byte("NaN")) {
		t.Error("the picture has a NaN in it")
	}
	if err := f.Merge(f); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("the same table twice: %v", err)
	}
}

func TestMemoryRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `no column "task"`,
		"task,length,model,accuracy\n":           `no column "deviation"`,
		"task,length,model,accuracy,deviation\n": "no points",
		"task,length,model,accuracy,deviation\nS,x,m,1,0\n":        "line 2",
		"task,length,model,accuracy,deviation\nS,1,m\n":            "wrong number of fields",
		"task,length,model,accuracy,deviation\nS,0,m,1,0\n":        "want a length of 1",
		"task,length,model,accuracy,deviation\nS,9,m,NaN,0\n":      "accuracy NaN",
		"task,length,model,accuracy,deviation\nS,9,m,1.5,0\n":      "accuracy 1.5",
		"task,length,model,accuracy,deviation\nS,9,m,1,-1\n":       "deviation -1",
		"task,length,model,accuracy,deviation\n,9,m,1,0\n":         "want names",
		"task,length,model,accuracy,deviation\nS,9,m,1,NaN\n":      "deviation NaN",
		"task,length,model,accuracy,deviation\nS,9,m,1,0\n\"S,9\n": "quote",
	} {
		if _, err := ReadMemory(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, long := range []string{strings.Repeat("S,9,m,1,0\n", maxMemoryPoints+1), `"` + strings.Repeat("x", maxMemoryBytes)} {
		if _, err := ReadMemory(strings.NewReader("task,length,model,accuracy,deviation\n" + long)); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("a table of %d bytes: %v", len(long), err)
		}
	}
}

func FuzzReadMemory(f *testing.F) {
	f.Add([]byte(table4))
	f.Add([]byte("task,length,model,accuracy,deviation\nS,9,m,1,-0\n"))
	f.Add([]byte("\xef\xbb\xbftask,length,model,accuracy,deviation\n\"\",9,\xff,1e-400,0x1p-2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadMemory(bytes.NewReader(text))
		if err != nil {
			return
		}
		// An accepted file is drawn, and its CSV file is accepted as well.
		if svg, err := m.Picture().SVG(); err != nil || bytes.Contains(svg, []byte("NaN")) {
			t.Fatalf("drawing: %v", err)
		}
		again, err := ReadMemory(bytes.NewReader(m.CSV()))
		if err != nil || !bytes.Equal(again.CSV(), m.CSV()) {
			t.Fatalf("read again: %v", err)
		}
	})
}
