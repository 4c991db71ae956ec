package imports

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// readFuzzed reads samples, and checks them.
func readFuzzed(t *testing.T, s *tableSet) error {
	var c archive.RecordingChunk
	err := s.readSamples(&c, 1000)
	if err == nil {
		if err := c.Check(len(s.Channels), false); err != nil {
			t.Errorf("an unsound chunk was read: %v", err)
		}
		if s.targetName() != "" && len(c.Number) != c.Rows() || s.groupName() != "" && len(c.Group) != c.Rows() {
			t.Errorf("%d samples, %d numbers, %d groups", c.Rows(), len(c.Number), len(c.Group))
		}
		if c.Rows() > 0 {
			if _, err := s.summarize(dialect{}); err != nil && !strings.Contains(err.Error(), "specify the unit") {
				t.Errorf("no summary: %v", err)
			}
		}
	}
	return err
}

// FuzzTable reads any bytes as a table in any form: samples, or an error with the name of
// the file; the mapping of the table is readable.
func FuzzTable(f *testing.F) {
	f.Add([]byte("timestamp;temp [degC];state\n2026-01-01 00:00:00;20,5;ok\n"), "", "")
	f.Add([]byte(" 1 1 -0.5 3e2\n 1 2 0.5 NaN\n"), "c1", "c2")
	f.Add([]byte("time,tag,value\n1767225601,p,4\n1767225602,q,\n"), "", "")
	f.Add([]byte("unit|cycle|rul\n1|1|5\n"), "unit", "")
	f.Fuzz(func(t *testing.T, data []byte, group, ignore string) {
		src, err := openText(t, "fuzz.csv", data, 1<<20)
		if err != nil {
			return
		}
		table := Table{Group: group, Ignore: ignore}
		if table.Check() != nil {
			return
		}
		s, err := openSet(src, table)
		if err == nil && s.columnOf(kindSensor) != nil {
			s.reader, err = s.openLong()
		}
		if err == nil {
			err = readFuzzed(t, s)
		}
		if err != nil && err != io.EOF && !strings.Contains(err.Error(), "fuzz.csv:") && !strings.HasPrefix(err.Error(), "offline: ") {
			t.Errorf("the error does not name the file: %v", err)
		}
		if err != nil {
			return
		}
		sum, err := s.summarize(dialect{delimiter: ';', decimal: ',', header: true})
		if err != nil {
			return
		}
		if _, err := parseMapping(sum.Mapping()); err != nil {
			t.Errorf("the mapping is not readable: %v\n%s", err, sum.Mapping())
		}
	})
}

// FuzzMapping reads any bytes as a mapping.
func FuzzMapping(f *testing.F) {
	f.Add([]byte("delimiter: ;\ncolumns:\n  - name: a\n    kind: channel\n"))
	f.Add([]byte("a: &a [x, x]\nnames: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseMapping(data)
		if err == nil && table.Check() != nil {
			t.Error("invalid options were read")
		}
	})
}

// FuzzNPZ reads any bytes as an NPZ file.
func FuzzNPZ(f *testing.F) {
	f.Add(npz(f, map[string][]byte{"x.npy": npy("<f4", "(3,)", []float32{1, 2, 3}), "y.npy": npy("<i8", "(3, 2)", []int64{1, 2, 3, 4, 5, 6})}))
	f.Add(npy("<f4", "(3,)", []float32{1, 2, 3}))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The bytes are a file, or an array in a sound file.
		for _, file := range [][]byte{data, npz(t, map[string][]byte{"x.npy": data})} {
			rows, err := readNPZ(context.Background(), "fuzz.npz", bytes.NewReader(file), int64(len(file)))
			if err == nil {
				s := newTableSet(context.Background(), Table{}, []tableFile{{"fuzz.npz", "fuzz"}}, nil)
				s.next = 1
				if s.reader, err = s.readColumns(rows, "fuzz"); err == nil {
					err = readFuzzed(t, s)
				}
				rows.close()
			}
			if err != nil && err != io.EOF && !strings.HasPrefix(err.Error(), "fuzz.npz") {
				t.Errorf("the error does not name the file: %v", err)
			}
		}
	})
}
