package imports

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// tableFile is a file of a recording.
type tableFile struct{ path, stream string }

// tableEndings are the endings of tables, optionally followed by .gz.
var tableEndings = []string{".csv", ".txt", ".dat", ".tsv", ".data", ".asc", ".npz"}

const (
	mostFiles   = 100000
	mostSensors = 1000 // files that are open at once
)

// IsTable reports whether the name is the name of a table.
func IsTable(path string) bool {
	low := strings.TrimSuffix(strings.ToLower(path), ".gz")
	return slices.Contains(tableEndings, filepath.Ext(low))
}

// TableFiles returns the files of a recording at path, which is a file, a folder or a
// pattern; none if there are none.
func TableFiles(path string) (paths []string, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return []string{path}, nil
	case err == nil:
		err = filepath.WalkDir(path+string(filepath.Separator), func(file string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(path, file)
			switch {
			case err != nil:
				return err
			case e.IsDir() && rel != "." && strings.Count(rel, string(filepath.Separator)) >= 2:
				return fs.SkipDir
			case !e.IsDir() && IsTable(file) && !strings.HasPrefix(filepath.Base(file), "."):
				paths = append(paths, filepath.Join(path, rel))
			}
			if len(paths) > mostFiles {
				return fmt.Errorf("%s has more than %d files", path, mostFiles)
			}
			return nil
		})
	default:
		found, bad := filepath.Glob(path)
		if bad != nil || len(found) == 0 {
			return nil, fmt.Errorf("offline: %w", err)
		}
		paths, err = found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	slices.Sort(paths)
	return paths, nil
}

// nameStreams returns the files, each with the name of its stream: the path below the
// common folder without endings, with - between folders.
func nameStreams(paths []string) (files []tableFile, err error) {
	common := filepath.Dir(paths[0])
	for _, path := range paths[1:] {
		for {
			if rel, err := filepath.Rel(common, path); err == nil && !strings.HasPrefix(rel, "..") || common == filepath.Dir(common) {
				break
			}
			common = filepath.Dir(common)
		}
	}
	seen := map[string]string{}
	for _, path := range paths {
		rel, err := filepath.Rel(common, filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("offline: %w", err)
		}
		stream := BaseName(path)
		if rel != "." {
			stream = strings.ReplaceAll(filepath.ToSlash(rel), "/", "-") + "-" + stream
		}
		if err := names.Check("stream", stream); err != nil {
			return nil, fmt.Errorf("offline: %s: %w", path, err)
		}
		if other, twice := seen[stream]; twice {
			return nil, fmt.Errorf("offline: %s and %s are both stream %q: rename one", other, path, names.Cut(stream, 40))
		}
		seen[stream] = path
		files = append(files, tableFile{path, stream})
	}
	return files, nil
}

// openRows opens a table.
func (s *tableSet) openRows(path string) (rowReader, error) {
	if strings.HasSuffix(strings.ToLower(path), ".npz") {
		return openNPZ(s.ctx, path, s.progress)
	}
	src, err := openSource(s.ctx, path, &s.budget, s.progress)
	if err != nil {
		return nil, err
	}
	rows, err := readTextRows(src, &s.t)
	if err != nil {
		src.close()
		return nil, err
	}
	return rows, nil
}

// openTable opens a table, transposed if necessary.
func (s *tableSet) openTable(path string) (rowReader, error) {
	rows, err := s.openRows(path)
	if err != nil {
		return nil, err
	}
	first, text := rows.peekRows(), false
	if _, text = rows.form(); !text || len(first) == 0 || rows.header() != nil || !s.t.Transpose && (s.width == 0 || len(first[0]) == s.width) {
		return rows, nil
	}
	turned, err := transpose(rows)
	if err == nil && !s.t.Transpose && len(turned.first[0]) != s.width {
		err = rows.errorf("the file has %d columns, the others have %d", len(first[0]), s.width)
	}
	if err != nil {
		rows.close()
		return nil, err
	}
	if !s.t.Transpose {
		s.addNote("%s: %d lines of %d values are read as %d samples of %d columns", filepath.Base(path), s.width, len(first[0]), len(first[0]), s.width)
	}
	return turned, nil
}

// findWidth finds the usual number of columns of the first files without header.
func (s *tableSet) findWidth() error {
	const files = 9
	if len(s.files) == 1 || s.t.Transpose {
		return nil
	}
	count, best := map[int]int{}, 0
	for _, file := range s.files[:min(files, len(s.files))] {
		rows, err := s.openRows(file.path)
		if err != nil {
			return err
		}
		if first := rows.peekRows(); len(first) > 0 && rows.header() == nil {
			n := len(first[0])
			if count[n]++; count[n] > count[best] {
				best = n
			}
		}
		rows.close()
	}
	s.width = best
	return nil
}

// mostTurned bounds the memory of transpose.
const mostTurned = 1 << 24 // fields

// transposed is a table in memory whose lines have become columns.
type transposed struct {
	rowReader
	first [][][]byte
	next  int
}

func transpose(rows rowReader) (*transposed, error) {
	t := &transposed{rowReader: rows}
	fields := 0
	for {
		row, err := rows.readRow()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if fields += len(row); fields > mostTurned {
			return nil, rows.errorf("more than %d fields to transpose", mostTurned)
		}
		if t.first == nil {
			t.first = make([][][]byte, len(row))
		}
		for i, field := range row {
			t.first[i] = append(t.first[i], slices.Clone(field))
		}
	}
	if len(t.first) == 0 {
		return nil, rows.errorf("no samples in the file")
	}
	return t, nil
}

func (t *transposed) header() []string     { return nil }
func (t *transposed) peekRows() [][][]byte { return t.first }
func (t *transposed) readRow() ([][]byte, error) {
	if t.next == len(t.first) {
		return nil, io.EOF
	}
	t.next++
	return t.first[t.next-1], nil
}
