package archive

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/parquet"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// SetGroups reads the group of each series of d from a column of the archive at path, the source of d.
func (d *Dataset) SetGroups(path, column string) error {
	missing, err := d.setGroups(path, column)
	return cmp.Or(missing, err)
}

// setGroups also reports a missing column, which is no fault of the file.
func (d *Dataset) setGroups(path, column string) (missing, err error) {
	defer guard(path, &err)
	in, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	defer in.file.Close()
	if err := in.hasColumn(path, column, "the groups"); err != nil {
		return err, nil
	}
	return nil, d.readGroups(in, column)
}

func (d *Dataset) readGroups(in *parquetFile, column string) error {
	at := 0
	for i := range in.rd.NumRowGroups() {
		in.pages = 0
		g, err := in.group(i)
		if err != nil {
			return err
		}
		values, err := groupColumn(g, column)
		if err != nil {
			return err
		}
		if at+len(values) > len(d.Series) {
			return fmt.Errorf("more than %d series: the file changed while it was read", len(d.Series))
		}
		for _, v := range values {
			d.Series[at].Group = v
			at++
		}
	}
	if at < len(d.Series) {
		return fmt.Errorf("%d series, want %d: the file changed while it was read", at, len(d.Series))
	}
	return nil
}

// groupColumn reads a column of text or of whole numbers. Null is the empty text.
func groupColumn(g *rowGroup, name string) ([]string, error) {
	var values []string
	descr, _, err := g.in.leaf(name)
	if err != nil {
		return nil, err
	}
	kind := descr.PhysicalType()
	if kind == parquet.Types.Int32 || kind == parquet.Types.Int64 {
		numbers, err := integers(g, name)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			values = append(values, strconv.FormatInt(n, 10))
		}
		return values, nil
	}
	values, err = flat(g, name, interner(), func() string { return "" })
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if i > 0 && v == values[i-1] {
			continue
		}
		if err := names.Check("group", v); err != nil {
			return nil, fmt.Errorf("column %q, row %d: %w", name, i, err)
		}
	}
	return values, nil
}
