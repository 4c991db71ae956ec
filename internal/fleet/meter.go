package fleet

import "time"

// rateSpan is the averaging time of rates, rateTimes the number of readings in this time.
const (
	rateSpan  = 10 * time.Second
	rateEvery = time.Second
	rateTimes = int(rateSpan/rateEvery) + 1
)

// reading has a process's counters at a time.
type reading struct {
	time                                     time.Time
	messages, samples, predictions, replayed uint64
}

// meter keeps the readings of the last seconds.
type meter struct {
	readings [rateTimes]reading
	n        int // number of readings
}

func (m *meter) addReading(r reading) {
	m.readings[m.n%rateTimes] = r
	m.n++
}

// computeRates returns the mean rates since the oldest kept reading.
func (m *meter) computeRates(now reading) Rates {
	if m.n == 0 {
		return Rates{}
	}
	first := m.readings[max(0, m.n-rateTimes)%rateTimes]
	over := now.time.Sub(first.time).Seconds()
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

// addRates adds the rates of another process.
func (r Rates) addRates(o Rates) Rates {
	if o.Over == 0 {
		return r
	}
	if r.Over == 0 {
		r.Over = o.Over
	}
	return Rates{min(r.Over, o.Over), r.Messages + o.Messages, r.Samples + o.Samples, r.Predictions + o.Predictions, r.Replayed + o.Replayed}
}
