package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var viewID = arrow.Field{Name: "stream_id", Type: arrow.BinaryTypes.StringView}

// viewMessage writes rows of zeros with ids as a utf8_view, after a field of
// the same type that no model reads; blocks are of 32 KiB.
func viewMessage(t *testing.T, ids []string) []byte {
	t.Helper()
	schema := arrow.NewSchema(append([]arrow.Field{{Name: "note", Type: arrow.BinaryTypes.StringView}, viewID}, sampleFields(arrow.PrimitiveTypes.Float32)...), nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for _, id := range ids {
		b.Field(0).(*array.StringViewBuilder).Append(strings.Repeat("a note nobody asked for ", 40))
		b.Field(1).(*array.StringViewBuilder).Append(id)
		for c := 2; c < 5; c++ {
			b.Field(c).AppendEmptyValue()
		}
	}
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(b.NewRecord()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestViewedNames reads names of every length about the 12 bytes that a view
// has room for, from several blocks.
func TestViewedNames(t *testing.T) {
	var ids []string
	for i := range 2000 {
		ids = append(ids, fmt.Sprint(i)+strings.Repeat("x", i%60))
	}
	var b Batch
	if err := newDecoder(t, Reject).Decode(viewMessage(t, ids), &b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Keys, ids) {
		t.Errorf("%d names came back as %d, or others: %.100q", len(ids), len(b.Keys), b.Keys)
	}
}

// TestViewsThatLie changes one long view of a good message: only an error may
// result.
func TestViewsThatLie(t *testing.T) {
	long := "a name longer than a view"
	good := viewMessage(t, []string{"short", long})
	at := bytes.Index(good, append(binary.LittleEndian.AppendUint32(nil, uint32(len(long))), long[:4]...))
	if at < 0 {
		t.Fatal("the test has lost its subject")
	}
	for _, c := range []struct {
		place int // of the number changed, in the view
		to    uint32
		want  string
	}{
		{0, 1 << 31, "view of -2147483648 bytes at 0 in block 0 of 1"},
		{0, uint32(len(long)) + 1<<20, "in block 0 of 1"},
		{8, 1, "in block 1 of 1"},
		{8, 1<<32 - 1, "in block -1 of 1"},
		{12, 1 << 20, "at 1048576 in block 0"},
		{12, 1<<32 - 1, "at -1 in block 0"},
		{12, 1<<31 - 1, "at 2147483647 in block 0"},
	} {
		bad := slices.Clone(good)
		binary.LittleEndian.PutUint32(bad[at+c.place:], c.to)
		err := newDecoder(t, Reject).Decode(bad, &Batch{})
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), `row 1, field "stream_id": view of`) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d at %d: got %v, want %q", c.to, c.place, err, c.want)
		}
	}
}

// TestViewsShare: rows may name one stored string, as writers that store a
// repeated id once do; too many rows with a long string cost more than the
// message's size.
func TestViewsShare(t *testing.T) {
	first := strings.Repeat("n", 60)
	for length, ok := range map[int]bool{60: true, 20_000: false} {
		ids := []string{first}
		for i := range 1000 { // two strings in turn, or each would be known from the row before
			ids = append(ids, fmt.Sprintf("%0*d", 15, i%2))
		}
		ids[1] = strings.Repeat("m", length)
		payload := viewMessage(t, ids)
		prefix := append(binary.LittleEndian.AppendUint32(nil, uint32(length)), "mmmm"...)
		at := bytes.Index(payload, prefix)
		if at < 0 {
			t.Fatal("the test has lost its subject")
		}
		for i := 1; i < 1000; i += 2 { // every second row has the name of row 1
			copy(payload[at+16*(i-1):], payload[at:at+16])
		}
		_, err := watch(t, fmt.Sprint("views of ", length), payload, decodeFresh(t))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "views share bytes") {
			t.Errorf("names of %d bytes: %v", length, err)
		}
	}
}

// TestFileFormat: the file format is the most frequent mistake, so the error names it.
func TestFileFormat(t *testing.T) {
	schema := arrow.NewSchema(sampleFields(arrow.PrimitiveTypes.Float32), nil)
	f, err := os.Create(filepath.Join(t.TempDir(), "x.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	payload, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	err = newDecoder(t, Reject).Decode(payload, &Batch{})
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "an Arrow file (ARROW1), want the IPC stream format") {
		t.Errorf("got %v", err)
	}
	err = newDecoder(t, Reject).Decode([]byte(`{"ax": 1}`), &Batch{})
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "no Arrow IPC stream") {
		t.Errorf("JSON: got %v", err)
	}
}
