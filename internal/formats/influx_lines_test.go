package formats

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// scanLines cuts bytes in segments of the given sizes, the last of which is repeated. The
// last line may have no end.
func scanLines(b []byte, sizes ...int) (lines []string) {
	var s LineScanner
	var line []byte
	for i := 0; len(b) > 0; i++ {
		segment := b[:min(len(b), sizes[min(i, len(sizes)-1)])]
		b = b[len(segment):]
		for len(segment) > 0 {
			n := s.End(segment)
			if n == 0 {
				line = append(line, segment...)
				break
			}
			lines = append(lines, string(append(line, segment[:n]...)))
			line, segment = nil, segment[n:]
		}
	}
	if len(line) > 0 {
		lines = append(lines, string(line))
	}
	return lines
}

// Lines end at line feeds outside quoted field values, for any segmentation.
func TestLineScanner(t *testing.T) {
	for _, want := range [][]string{
		{"m a=1,b=2\n", "\n", "# it's \"quoted\n", "m a=3,b=4 5\r\n", "m a=1"},
		{"m a=1,b=2,msg=\"one\nm,stream_id=forged a=9,b=9\ntwo\" 17\n", "m a=1,b=2\n"},
		{"m msg=\"a \\\" \\\\\",a=1\n", "m msg=\"\\\\\\\"\n\",a=1\n", "m a=1\n"},
		{"m\"t,x\\ =\"=y\"z a=1,b=2\n", "m,t=\"\n", "m a\\=\"b=1\n"},         // quotes in tags and names
		{"m a=1\"\n", "m a=t\",b=\"x\n\"\n", "m  a=\"\n\" ,b=\"\n\"\n"},      // of numbers; after blanks
		{"m c d=\"x\nm a=1,b=2\n\"\n", "m a=1 5 b=\"\n\"\n", "m a=\"\"\"\n"}, // invalid lines
	} {
		var all []byte
		for _, line := range want {
			all = append(all, line...)
		}
		for size := 1; size <= len(all); size++ {
			if got := scanLines(all, size); !slices.Equal(got, want) {
				t.Errorf("in segments of %d: %q, want %q", size, got, want)
			}
		}
	}
}

// FuzzLineScanner: the lines do not depend on the segmentation, and if a decoder reads
// the bytes as one message, it reads the same rows line by line.
func FuzzLineScanner(f *testing.F) {
	for _, s := range append(slices.Clone(good[Influx]), "m a=1,b=2,s=\"x\ny\\\"\n\" 5\nm a=3,b=4\n", "m a=1,b=2,z=5=\"x\nm a=3,b=4,z=t\"\n", "m a=1,b=2 \n\r\n # c\n m a=1,b=2") {
		f.Add([]byte(s), uint8(3), uint8(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, first, others uint8) {
		lines := scanLines(b, len(b)+1)
		if got := scanLines(b, 1+int(first), 1+int(others)); !slices.Equal(got, lines) {
			t.Fatalf("in segments %q, whole %q", got, lines)
		}
		d := newDecoder(t, Input{Format: Influx}, codec.Hold, "a", "b")
		var whole codec.Batch
		if d.Decode(b, &whole) != nil {
			return
		}
		var want, got []string
		want = describeRows(want, &whole)
		for _, line := range lines {
			var one codec.Batch
			if err := d.Decode([]byte(line), &one); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			got = describeRows(got, &one)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("line by line %q, whole %q", got, want)
		}
	})
}

// describeRows adds the rows of a batch as texts.
func describeRows(all []string, b *codec.Batch) []string {
	for row := range b.Rows {
		at, end, key := int64(codec.NoTime), false, ""
		if len(b.Times) > 0 {
			at = b.Times[row]
		}
		if len(b.Ends) > 0 {
			end = b.Ends[row]
		}
		if len(b.Key) > 0 {
			key = b.Keys[b.Key[row]]
		}
		all = append(all, fmt.Sprint(math.Float32bits(b.X[2*row]), math.Float32bits(b.X[2*row+1]), at, end, key))
	}
	return all
}
