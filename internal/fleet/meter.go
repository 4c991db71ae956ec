package fleet

import "time"

// rateSpan is the time that rates are a mean of, and rateTimes how many readings that is.
const (
	rateSpan  = 10 * time.Second
	rateEvery = time.Second
	rateTimes = int(rateSpan/rateEvery) + 1
)

// reading is what a process had counted at a time.
type reading struct {
	at                                       time.Time
	messages, samples, predictions, replayed uint64
}

// meter keeps the readings of the last seconds.
type meter struct {
	last [rateTimes]reading
	n    int // readings in all
}

func (m *meter) note(r reading) {
	m.last[m.n%rateTimes] = r
	m.n++
}

// rates are a mean from the oldest reading that is kept until now.
func (m *meter) rates(now reading) Rates {
	if m.n == 0 {
		return Rates{}
	}
	first := m.last[max(0, m.n-rateTimes)%rateTimes]
	over := now.at.Sub(first.at).Seconds()
	if over <= 0 {
		return Rates{}
	}
	per := func(a, b uint64) float64 {
		if b < a {
			return 0
		}
		return float64(b-a) / over
	}
	return Rates{
		Over: over, Messages: per(first.messages, now.messages), Samples: per(first.samples, now.samples),
		Predictions: per(first.predictions, now.predictions), Replayed: per(first.replayed, now.replayed),
	}
}

// and adds the rates of another process.
func (r Rates) and(o Rates) Rates {
	if o.Over == 0 {
		return r
	}
	if r.Over == 0 {
		r.Over = o.Over
	}
	return Rates{min(r.Over, o.Over), r.Messages + o.Messages, r.Samples + o.Samples, r.Predictions + o.Predictions, r.Replayed + o.Replayed}
}
