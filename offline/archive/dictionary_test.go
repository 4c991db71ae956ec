package archive

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

// pageList is a page reader of pages in memory.
type pageList struct {
	file.PageReader
	pages []file.Page
	next  int
}

func (p *pageList) Next() bool      { p.next++; return p.next <= len(p.pages) }
func (p *pageList) Page() file.Page { return p.pages[p.next-1] }
func (p *pageList) Err() error      { return nil }

// dictionaryPages are a dictionary that claims values, and a page of rows with indices,
// below levels if the column has nulls.
func dictionaryPages(dictionary string, claimed, rows int, version int, levels, indices string) []file.Page {
	size := int32(len(levels))
	if version == 1 && levels != "" {
		levels = string(binary.LittleEndian.AppendUint32(nil, uint32(size))) + levels
	}
	body := memory.NewBufferBytes([]byte(levels + indices))
	data := file.Page(file.NewDataPageV1(body, int32(rows), parquet.Encodings.RLEDict, parquet.Encodings.RLE, parquet.Encodings.RLE, int32(body.Len())))
	if version == 2 {
		data = file.NewDataPageV2(body, int32(rows), 0, int32(rows), parquet.Encodings.RLEDict, size, 0, int32(body.Len()), false)
	}
	return []file.Page{file.NewDictionaryPage(memory.NewBufferBytes([]byte(dictionary)), int32(claimed), parquet.Encodings.Plain), data}
}

// dictionaryColumn reads a column of these pages through the checks.
func dictionaryColumn(kind parquet.Type, nullable bool, pages []file.Page) file.ColumnChunkReader {
	repetition, maxDef := parquet.Repetitions.Required, int16(0)
	if nullable {
		repetition, maxDef = parquet.Repetitions.Optional, 1
	}
	node := schema.MustPrimitive(schema.NewPrimitiveNode("c", repetition, kind, -1, 2))
	descr := schema.NewColumn(node, maxDef, 0)
	var held int64
	return file.NewColumnReader(descr, &checkedPages{PageReader: &pageList{pages: pages}, column: descr, held: &held}, memory.DefaultAllocator, nil)
}

// dictionaryKinds are the types with dictionaries, and the sizes of a value there.
var dictionaryKinds = map[parquet.Type]int{
	parquet.Types.Int32: 4, parquet.Types.Int64: 8, parquet.Types.Int96: 12, parquet.Types.Float: 4,
	parquet.Types.Double: 8, parquet.Types.ByteArray: 4, parquet.Types.FixedLenByteArray: 2,
}

// TestIndexBeyondDictionary wants a page refused before the library allocates memory up
// to an index that the dictionary does not have.
func TestIndexBeyondDictionary(t *testing.T) {
	const far = "\x0a\xff\xff\xff\x7f" // 5 times 2^31-1
	for kind, size := range dictionaryKinds {
		for version := 1; version <= 2; version++ {
			for name, c := range map[string]struct {
				claimed         int
				levels, indices string
				says            string
			}{
				"a run":                {3, "", "\x20" + far, "a page holds index 2147483647, its dictionary 3 values"},
				"a run below nulls":    {3, "\x03\x1f", "\x20" + far, "a page holds index 2147483647, its dictionary 3 values"},
				"the next index":       {3, "", "\x02\x0a\x03", "a page holds index 3, its dictionary 3 values"},
				"packed":               {3, "", "\x02\x03\xe4\x00", "a page holds index 3, its dictionary 3 values"},
				"packed, wide":         {3, "", "\x20\x03" + strings.Repeat("\xff", 32), "a page holds index 4294967295, its dictionary 3 values"},
				"an empty dictionary":  {0, "", "\x00\x0a", "a page holds index 0, its dictionary 0 values"},
				"too wide":             {3, "", "\x21\x0a\x00\x00\x00\x00\x00", "indices of 33 bits, want at most 32"},
				"no width":             {3, "", "", "fewer entries than its header claims"},
				"too few":              {3, "", "\x02\x08\x01", "fewer entries than its header claims"},
				"packed, cut":          {3, "", "\x02\x03\x24", "fewer entries than its header claims"},
				"a large dictionary":   {1<<31 - 1, "", "\x20" + far, "a dictionary claims 2147483647 values"},
				"a dictionary one off": {4, "", "\x02\x0a\x01", "a dictionary claims 4 values"},
			} {
				var err error
				bytes := allocated(func() {
					rd := dictionaryColumn(kind, c.levels != "", dictionaryPages(strings.Repeat("\x00", 3*size), c.claimed, 5, version, c.levels, c.indices))
					if rd.HasNext() {
						t.Errorf("%s, version %d, %s: the page reached the library's decoder", kind, version, name)
					}
					err = rd.Err()
				})
				archivetest.WantError(t, err, c.says)
				if bytes > 1<<20 {
					t.Errorf("%s, version %d, %s: %d bytes were allocated", kind, version, name, bytes)
				}
			}
		}
	}
}

// TestIndicesOfDictionary reads pages of other tools: with wide indices, with packed bits that end with the last
// value, or with more packed bits than values.
func TestIndicesOfDictionary(t *testing.T) {
	var dictionary []byte
	for i := range 3 {
		dictionary = binary.LittleEndian.AppendUint64(dictionary, uint64(10*i))
	}
	wide := []byte("\x20\x03")
	for _, i := range []uint32{0, 1, 2, 1, 0} {
		wide = binary.LittleEndian.AppendUint32(wide, i)
	}
	for name, c := range map[string]struct {
		levels, indices string
		want            []int64
	}{
		"runs":                    {"", "\x02\x06\x02\x04\x01", []int64{20, 20, 20, 10, 10}},
		"a run that goes on":      {"", "\x02\x40\x02", []int64{20, 20, 20, 20, 20}},
		"packed":                  {"", "\x02\x03\x64\x00", []int64{0, 10, 20, 10, 0}},
		"packed, others after it": {"", "\x02\x03\x64\xfc", []int64{0, 10, 20, 10, 0}},
		"a run and packed":        {"", "\x02\x04\x02\x03\x24", []int64{20, 20, 0, 10, 20}},
		"wide, cut":               {"", string(wide), []int64{0, 10, 20, 10, 0}},
		"one value, packed":       {"", "\x00\x03", []int64{0, 0, 0, 0, 0}},
		"nulls":                   {"\x03\x15", "\x02\x03\x24", []int64{0, 10, 20}}, // levels 1 0 1 0 1
		"nulls, wide, cut":        {"\x03\x15", string(wide[:2+3*4]), []int64{0, 10, 20}},
		"nulls only":              {"\x0a\x00", "", nil},
	} {
		for version := 1; version <= 2; version++ {
			rd := dictionaryColumn(parquet.Types.Int64, c.levels != "", dictionaryPages(string(dictionary), 3, 5, version, c.levels, c.indices))
			values, def := make([]int64, 5), make([]int16, 5)
			total, read, err := rd.(batchReader[int64]).ReadBatch(5, values, def, nil)
			if err != nil || total != 5 || !slices.Equal(values[:read], c.want) {
				t.Errorf("%s, version %d: %d entries, values %v, %v, want %v", name, version, total, values[:read], err, c.want)
			}
		}
	}
}

// TestScanEntries compares numbers of every width before packing and after scanning.
func TestScanEntries(t *testing.T) {
	for width := 1; width <= 32; width++ {
		const n = 40
		packed := make([]byte, n*width/8)
		largest, match := uint64(0), uint64(1)
		matches := int64(0)
		for i := range n {
			number := uint64(i*i) * 0x9e3779b1 & (1<<width - 1)
			for b := range width {
				packed[(i*width+b)/8] |= byte(number >> b & 1 << ((i*width + b) % 8))
			}
			if number == match {
				matches++
			}
			largest = max(largest, number)
		}
		got, most, ok := scanEntries(append([]byte{n/8<<1 | 1}, packed...), width, n, match)
		if want := fmt.Sprint(matches, largest, true); fmt.Sprint(got, most, ok) != want {
			t.Errorf("%d bits: %d matches, largest %d, %v, want %s", width, got, most, ok, want)
		}
	}
}
