package imports

import (
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// absent finds what the listed series lack as a whole: the first series without
// a single value, how many there are, and the channels that have none in any of
// them. Filled up, they look to a network like a constant.
func absent(d *archive.Dataset, series []int) (first string, empty int, channels []string) {
	heard := make([]bool, len(d.Channels))
	for _, i := range series {
		s, any := &d.Series[i], len(d.Channels) == 0
		for k, v := range s.Values {
			if v == v {
				heard[k%len(d.Channels)], any = true, true
			}
		}
		if !any {
			if empty++; first == "" {
				first = s.ID
			}
		}
	}
	for c, ok := range heard {
		if !ok && len(series) > 0 {
			channels = append(channels, d.Channels[c])
		}
	}
	return first, empty, channels
}

// warnAbsent notes what is absent from a part.
func warnAbsent(d *archive.Dataset, split archive.Split) {
	first, empty, channels := absent(d, d.Part(split))
	if empty > 0 {
		warn(d, "%d series of the %s part without a single value, the first %s", empty, split, first)
	}
	if len(channels) > 0 {
		warn(d, "%d of %d channels without a single value in the %s part, the first %s", len(channels), len(d.Channels), split, names.Cut(channels[0], 40))
	}
}
