package imports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// fuzzReader lets a reader of a format read any bytes: it must return a valid part, or an
// error with the file name. The cases of testdata/read and the files in testdata/fuzz are
// the seeds.
func fuzzReader(f *testing.F, name string, read func(*source) (*part, error)) {
	text, err := os.ReadFile(filepath.Join("testdata", "read", strings.TrimPrefix(filepath.Ext(name), ".")+".txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range strings.Split(string(text), "\n=== ")[1:] {
		_, body, _ := strings.Cut(c, "\n")
		data, _, _ := strings.Cut(body, "---\n")
		f.Add([]byte(data))
		f.Add(archivetest.Zipped(f, []byte(data)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const budget = 1 << 20 // values
		src, err := openText(t, name, data, budget)
		var p *part
		if err == nil {
			p, err = read(src)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), name+":") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		d := archive.Dataset{Name: "fuzz"}
		assemble(&d, [2]*part{p, p}, true)
		if err := d.Validate(); err != nil && len(d.Series) > 0 {
			t.Errorf("an unsound data set was read: %v", err)
		}
		if classes := p.classSet(); p.classes != nil && len(classes) != len(p.classes) {
			t.Errorf("labels %v go beyond the declared classes %q", classes, p.classes)
		}
	})
}

func FuzzTS(f *testing.F)   { fuzzReader(f, "fuzz.ts", readTS) }
func FuzzTSV(f *testing.F)  { fuzzReader(f, "fuzz.tsv", readTSV) }
func FuzzARFF(f *testing.F) { fuzzReader(f, "fuzz.arff", readARFF) }

// A vocabulary of 100 is part of the fuzz test: no larger id may be returned.
func FuzzTokens(f *testing.F) {
	fuzzReader(f, "fuzz.tokens", func(src *source) (*part, error) {
		p, err := readTokens(src, Options{NumWords: 100})
		if err != nil {
			return nil, err
		}
		for i, s := range p.series {
			if slices.ContainsFunc(s.tokens, func(id int32) bool { return id < 0 || id >= 100 }) {
				panic(fmt.Sprintf("document %d: tokens %d", i, s.tokens))
			}
		}
		return p, nil
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("stream,x,y\na,1,2\n\"b\",,NaN\n"))
	f.Add([]byte("time,seq,stream,x,end,label\n5,1,a,1,true,\"x\"\"y\"\n2024-01-01T00:00:00Z,2,a,1,0,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := openText(t, "fuzz.csv", data, 1<<20)
		if err == nil {
			var r *tableSet
			if r, err = openSet(src, Table{}); err == nil {
				var c archive.RecordingChunk
				if err = r.readSamples(&c, 1000); err == nil {
					if err := c.Check(len(r.Channels), false); err != nil {
						t.Errorf("an unsound chunk was read: %v", err)
					}
				}
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "fuzz.csv:") && err.Error() != "EOF" {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
