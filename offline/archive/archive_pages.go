package archive

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// checkedPages is between the library's page reader and its column reader. Only pages pass that hold as many levels
// as their header claims, because the column reader (arrow v17) would read other pages forever, and that hold no
// index beyond their dictionary.
type checkedPages struct {
	file.PageReader
	column  *schema.Column
	headers headers
	left    int64  // values of pages that have not come
	held    *int64 // bytes of the pages of all columns that are in memory
	own     int64  // of this column
	entries int64  // values of the dictionary
	err     error
}

// Next moves to the next page; false without a page or after an unsound page.
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
	p.err = p.checkPage()
	return p.err == nil
}

// Err is why Next was false, nil at the end of the column.
func (p *checkedPages) Err() error {
	if p.err != nil {
		return p.err
	}
	return p.PageReader.Err()
}

func (p *checkedPages) checkPage() error {
	switch page := p.Page().(type) {
	case *file.DictionaryPage:
		return p.checkDictionary(page)
	case *file.DataPageV1:
		values, data, err := p.checkV1(page)
		if err != nil {
			return err
		}
		return p.checkValues(page, values, data)
	case *file.DataPageV2:
		values, data, err := p.checkV2(page)
		if err != nil {
			return err
		}
		return p.checkValues(page, values, data)
	}
	return nil
}

// checkDictionary refuses a dictionary of more values than its bytes can hold, because the library allocates memory
// for the claimed values in the header.
func (p *checkedPages) checkDictionary(page *file.DictionaryPage) error {
	size := int64(4) // of an empty text
	switch kind := p.column.PhysicalType(); kind {
	case parquet.Types.FixedLenByteArray:
		size = max(1, int64(p.column.TypeLength()))
	case parquet.Types.ByteArray:
	default:
		size = int64(kind.ByteSize())
	}
	p.entries = int64(page.NumValues())
	if most := int64(len(page.Data())) / size; p.entries > most {
		return fmt.Errorf("a dictionary claims %d values, its %d bytes hold at most %d: the file is damaged", p.entries, len(page.Data()), most)
	}
	return nil
}

// checkValues accepts the default encodings of writers. The library notices plain values that end early. For indices
// of a dictionary the library allocates memory up to the largest index before checking this index, and unpacks bits
// beyond the end of the page.
func (p *checkedPages) checkValues(page file.Page, values int64, data []byte) error {
	switch e := parquet.Encoding(page.Encoding()); e {
	case parquet.Encodings.Plain, parquet.Encodings.RLE:
		return nil
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		return p.checkIndices(values, data)
	default:
		return fmt.Errorf("values in encoding %s are not supported: write the file with plain or dictionary encoding", e)
	}
}

const maxIndexBits = 32 // of an index in Parquet

// checkIndices checks that data are indices of the dictionary: their width in bits, and one index for each value.
func (p *checkedPages) checkIndices(values int64, data []byte) error {
	if values == 0 {
		return nil
	}
	if len(data) == 0 {
		return errShortPage
	}
	if data[0] > maxIndexBits {
		return fmt.Errorf("a page holds indices of %d bits, want at most %d: the file is damaged", data[0], maxIndexBits)
	}
	_, largest, ok := scanEntries(data[1:], int(data[0]), values, 0)
	if !ok {
		return errShortPage
	}
	if int64(largest) >= p.entries {
		return fmt.Errorf("a page holds index %d, its dictionary %d values: the file is damaged", largest, p.entries)
	}
	return nil
}

// checkV1 checks a page whose levels are before the values, repetition before definition, each with its size in four
// bytes. It returns the number of values of the page, and their bytes.
func (p *checkedPages) checkV1(page *file.DataPageV1) (values int64, data []byte, err error) {
	values, data = int64(page.NumValues()), page.Data()
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
			return 0, nil, fmt.Errorf("levels in encoding %s are not supported, want RLE", level.encoding)
		}
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return 0, nil, errShortPage
		}
		size := binary.LittleEndian.Uint32(data)
		var ok bool
		if values, ok = scanLevels(data[4:4+size], level.max, int64(page.NumValues())); !ok {
			return 0, nil, errShortPage
		}
		data = data[4+size:]
	}
	return values, data, nil
}

// checkV2 checks a page whose header has the sizes of the levels. It returns the number of values of the page, and
// their bytes.
func (p *checkedPages) checkV2(page *file.DataPageV2) (values int64, data []byte, err error) {
	values, data = int64(page.NumValues()), page.Data()
	for _, level := range []struct {
		max  int16
		size int32
	}{
		{p.column.MaxRepetitionLevel(), page.RepetitionLevelByteLen()},
		{p.column.MaxDefinitionLevel(), page.DefinitionLevelByteLen()},
	} {
		if level.size < 0 || int64(level.size) > int64(len(data)) {
			return 0, nil, errShortPage
		}
		if level.max > 0 {
			var ok bool
			if values, ok = scanLevels(data[:level.size], level.max, int64(page.NumValues())); !ok {
				return 0, nil, errShortPage
			}
		}
		data = data[level.size:]
	}
	return values, data, nil
}

var errShortPage = fmt.Errorf("a page holds fewer entries than its header claims: the file is damaged")

// scanLevels counts the levels equal to max among the first want levels of data; false if there are fewer levels.
// Definition levels of max have a value.
func scanLevels(data []byte, max int16, want int64) (values int64, ok bool) {
	values, _, ok = scanEntries(data, bits.Len16(uint16(max)), want, uint64(max))
	return values, ok
}

// scanEntries reads the first want entries of data, which are numbers of width bits, 32 at most, in Parquet's hybrid
// of run lengths and packed bits. It counts the entries equal to match, and finds the largest; false if there are
// fewer entries. The last entries of packed bits may be missing if they are not among the first want.
func scanEntries(data []byte, width int, want int64, match uint64) (matches int64, largest uint64, ok bool) {
	for want > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 || head>>1 == 0 || head>>1 > 1<<31-1 {
			return 0, 0, false
		}
		data = data[n:]
		count, packed := int64(head>>1), head&1 == 1
		if packed {
			count *= 8
		}
		// A run is a number of whole bytes, several times.
		numbers, times, size := int64(1), min(count, want), int64(width+7)/8*8
		if packed && width > 0 {
			numbers, times, size = count, 1, int64(width)
		}
		used := min(numbers, want)
		if (used*size+7)/8 > int64(len(data)) {
			return 0, 0, false
		}
		for i := range used {
			number := packedNumber(data, i*size, size)
			largest = max(largest, number)
			if number == match {
				matches += times
			}
		}
		data = data[min(numbers*size/8, int64(len(data))):]
		want -= used * times
	}
	return matches, largest, true
}

// packedNumber is the number of width bits, 32 at most, at a bit of data.
func packedNumber(data []byte, bit, width int64) uint64 {
	var word uint64
	if data = data[bit>>3:]; len(data) >= 8 {
		word = binary.LittleEndian.Uint64(data)
	} else {
		word = lastWord(data)
	}
	return word >> (bit & 7) & (1<<width - 1)
}

func lastWord(data []byte) (word uint64) {
	for i, b := range data {
		word |= uint64(b) << (8 * i)
	}
	return word
}
