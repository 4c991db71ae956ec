package offline

import "github.com/eusn-stream/eusn-stream/reservoir"

// inputs follow the labelled samples of a source, stream by stream, for the input statistics of a model.
type inputs struct {
	statistics *reservoir.InputStatistics
	channels   int
	streams    map[int]*reservoir.SeriesStatistics // series that have not ended
}

func newInputs(channels int) *inputs {
	return &inputs{reservoir.NewInputStatistics(channels), channels, map[int]*reservoir.SeriesStatistics{}}
}

// add takes the labelled samples of a chunk.
func (in *inputs) add(p *chunk) {
	s := in.streams[p.stream]
	if s == nil {
		s = in.statistics.Series()
		in.streams[p.stream] = s
	}
	for r, label := range p.labels {
		if label < 0 && !p.counts {
			s.Skip()
			continue
		}
		s.Add(p.values[r*in.channels : (r+1)*in.channels])
	}
	if p.last {
		delete(in.streams, p.stream)
	}
}
