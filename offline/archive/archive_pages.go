package archive

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// checkedPages is between the library's page reader and its column reader
// and lets only pages pass that hold as many levels as their header claims:
// from others the column reader (arrow v17) would read forever.
type checkedPages struct {
	file.PageReader
	column  *schema.Column
	headers headers
	left    int64  // values of pages that have not come
	held    *int64 // bytes of the pages of all columns that are in memory
	own     int64  // of this column
	err     error
}

// Next goes to the next page; false where there is none or it is unsound.
func (p *checkedPages) Next() bool {
	if p.err != nil {
		return false
	}
	if p.left > 0 {
		if p.err = p.headers.next(); p.err != nil {
			return false
		}
	}
	if !p.PageReader.Next() {
		return false
	}
	if _, dictionary := p.Page().(*file.DictionaryPage); !dictionary {
		p.left -= int64(p.Page().NumValues())
	}
	size := int64(len(p.Page().Data()))
	if *p.held += size - p.own; *p.held > maxPages {
		p.err = fmt.Errorf("the pages of all columns take more than %d MiB at a time: write the file with smaller pages or row groups", maxPages>>20)
		return false
	}
	p.own = size
	p.err = p.check()
	return p.err == nil
}

// Err is why Next was false, nil at the end of the column.
func (p *checkedPages) Err() error {
	if p.err != nil {
		return p.err
	}
	return p.PageReader.Err()
}

func (p *checkedPages) check() error {
	switch page := p.Page().(type) {
	case *file.DataPageV1:
		if err := checkEncoding(page); err != nil {
			return err
		}
		return p.checkV1(page)
	case *file.DataPageV2:
		if err := checkEncoding(page); err != nil {
			return err
		}
		return p.checkV2(page)
	}
	return nil
}

// checkEncoding accepts the encodings that writers use by default. For these the
// library notices when the values end early.
func checkEncoding(page file.Page) error {
	switch e := parquet.Encoding(page.Encoding()); e {
	case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE:
		return nil
	default:
		return fmt.Errorf("values in encoding %s are not supported: write the file with plain or dictionary encoding", e)
	}
}

// checkV1 checks a page whose levels are before the values, repetition
// before definition, each with its size in four bytes.
func (p *checkedPages) checkV1(page *file.DataPageV1) error {
	data := page.Data()
	for _, level := range []struct {
		max      int16
		encoding parquet.Encoding
	}{
		{p.column.MaxRepetitionLevel(), page.RepetitionLevelEncoding()},
		{p.column.MaxDefinitionLevel(), page.DefinitionLevelEncoding()},
	} {
		if level.max == 0 {
			continue
		}
		if level.encoding != parquet.Encodings.RLE {
			return fmt.Errorf("levels in encoding %s are not supported, want RLE", level.encoding)
		}
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return errShortLevels
		}
		size := binary.LittleEndian.Uint32(data)
		if !holdsLevels(data[4:4+size], level.max, int64(page.NumValues())) {
			return errShortLevels
		}
		data = data[4+size:]
	}
	return nil
}

// checkV2 checks a page whose header gives the sizes of the levels.
func (p *checkedPages) checkV2(page *file.DataPageV2) error {
	data := page.Data()
	for _, level := range []struct {
		max  int16
		size int32
	}{
		{p.column.MaxRepetitionLevel(), page.RepetitionLevelByteLen()},
		{p.column.MaxDefinitionLevel(), page.DefinitionLevelByteLen()},
	} {
		if level.size < 0 || int64(level.size) > int64(len(data)) {
			return errShortLevels
		}
		if level.max > 0 && !holdsLevels(data[:level.size], level.max, int64(page.NumValues())) {
			return errShortLevels
		}
		data = data[level.size:]
	}
	return nil
}

var errShortLevels = fmt.Errorf("a page holds fewer entries than its header claims: the file is damaged")

// holdsLevels says whether data, in Parquet's hybrid of run lengths and packed
// bits, hold at least want levels of 0..max.
func holdsLevels(data []byte, max int16, want int64) bool {
	width := int64(bits.Len16(uint16(max)))
	for have := int64(0); have < want; {
		head, n := binary.Uvarint(data)
		if n <= 0 || head>>1 == 0 || head>>1 > 1<<31-1 {
			return false
		}
		data = data[n:]
		count, size := int64(head>>1), (width+7)/8 // a run: one value, count times
		if head&1 == 1 {
			count, size = count*8, count*width // packed: groups of eight
		}
		if size > int64(len(data)) {
			return false
		}
		data = data[size:]
		have += count
	}
	return true
}
