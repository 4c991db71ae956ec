//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// heard is a sample used by the stage, in the form of a recording.
type heard struct {
	seq  uint64
	row  uint32
	time int64
	x, y float32
	flag outcome.Flag // of the event before the sample
}

// recordingFiles returns the files of a recording, in order.
func recordingFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	slices.Sort(files)
	return files, err
}

// readRecording reads the samples of each stream. Over all files, samples have the
// numbers 1, 2, 3 and so on; why describes a violation.
func readRecording(ctx context.Context, files []string) (all map[string][]heard, why string, err error) {
	all = map[string][]heard{}
	number := int64(0)
	for _, path := range files {
		f, err := file.OpenParquetFile(path, false)
		if err != nil {
			return nil, "", fmt.Errorf("chaos: %s: %w", path, err)
		}
		r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		if err != nil {
			return nil, "", fmt.Errorf("chaos: %s: %w", path, err)
		}
		table, err := r.ReadTable(ctx)
		f.Close()
		if err != nil {
			return nil, "", fmt.Errorf("chaos: %s: %w", path, err)
		}
		for rows := array.NewTableReader(table, 1<<20); rows.Next(); {
			rec := rows.Record()
			column := func(name string) func(row int) any {
				at := rec.Schema().FieldIndices(name)
				if len(at) != 1 {
					err = fmt.Errorf("chaos: %s has %d columns %s, want 1", path, len(at), name)
					return func(int) any { return nil }
				}
				c := rec.Column(at[0])
				return func(row int) any { return c.GetOneForMarshal(row) }
			}
			stream, seq, row, inSeq := column("stream"), column("seq"), column("eusn_row"), column("eusn_seq")
			flags, x, y := column("eusn_flags"), column("x"), column("y")
			times, isTime := rec.Column(rec.Schema().FieldIndices("time")[0]).(*array.Timestamp)
			if err != nil || !isTime {
				return nil, "", fmt.Errorf("chaos: %s: columns %v: %w", path, rec.Schema(), err)
			}
			for i := range int(rec.NumRows()) {
				if number++; integerOf(seq(i)) != number && why == "" {
					why = fmt.Sprintf("sample %d of the recording has number %v", number, seq(i))
				}
				name := fmt.Sprint(stream(i))
				h := heard{uint64(integerOf(inSeq(i))), uint32(integerOf(row(i))), int64(times.Value(i)), x(i).(float32), y(i).(float32), outcome.Flag(integerOf(flags(i)))}
				all[name] = append(all[name], h)
			}
		}
	}
	return all, why, nil
}

// integerOf converts a number of any integer column.
func integerOf(v any) int64 {
	switch n := v.(type) {
	case int32:
		return int64(n)
	case int64:
		return n
	case uint32:
		return int64(n)
	case uint64:
		return int64(n)
	}
	return -1
}
