package live

import (
	"log/slog"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// The states of all shards fill at most half of the memory.
func TestSlotsFitMemory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		set      int
		rowBytes int
		memory   uint64
		want     int
	}{
		{"the default fits", 0, 800, 1 << 30, 0},
		{"the default does not fit", 0, 45_000, 1 << 30, 1 << 30 / 2 / 2 / 45_000},
		{"a setting that does not fit", 1 << 20, 45_000, 8 << 30, 8 << 30 / 2 / 2 / 45_000},
		{"a setting that fits", 100, 45_000, 1 << 30, 100},
		{"unknown memory", 1 << 20, 45_000, 0, 1 << 20},
		{"almost no memory", 0, 45_000, 1000, 1},
	} {
		book := new(pipelinetest.LogBook)
		c := pipeline.Config{Shards: 2, Partitions: 2, MaxSlots: test.set}
		limitSlots(&c, test.rowBytes, test.memory, slog.New(slog.NewTextHandler(book, nil)))
		if c.MaxSlots != test.want {
			t.Errorf("%s: %d slots, want %d", test.name, c.MaxSlots, test.want)
		}
		if warned := book.Lines("holds fewer states") == 1; warned != (test.want != test.set) {
			t.Errorf("%s: a warning: %v\n%s", test.name, warned, book)
		}
	}
}
