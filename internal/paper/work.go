package paper

import (
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Work is the share of a run that is finished and decides the order of jobs. It is
// counted in gigaflops of a large reservoir's matrix product; other work counts as the
// multiply-adds of the same time on one core. The numbers are those of a Zen 3 and AVX2,
// BenchmarkWork shows their accuracy.
func gigaflops(multiplyAdds float64) float64 { return 2e-9 * multiplyAdds }

// steps returns the work of advancing a network by the given number of samples.
func steps(s reservoir.Spec, samples int) float64 {
	depth := float64(s.Units + s.Inputs() + 40) // other work of a unit, mostly its tanh
	if s.Kind == reservoir.RESN {
		depth = float64(3*s.Inputs() + 55) // the ring is one product
	}
	return gigaflops(float64(samples) * (float64(s.Units)*depth + 350))
}

// layeredSteps is steps for networks in layers. They advance one sample at a time, which
// costs a call and a copy of the states per sample.
func layeredSteps(list []reservoir.Spec, samples int) (sum float64) {
	for _, s := range list {
		sum += steps(s, samples) + gigaflops(float64(samples)*float64(120*s.Units+5400))
	}
	return sum
}

// work returns the work of a trial or draw of a reservoir: the samples through its
// networks, and a readout fitted to the series.
func (s Settings) work(model string, channels int, c Scales, samples, series int) float64 {
	list := specs(model, channels, c)
	run := steps(list[0], samples)
	if len(list) > 1 {
		run = layeredSteps(list, samples)
	}
	n := float64(c.Units)
	if s.Protocol == PaperExact {
		return run + gigaflops(40*n*n*n)
	}
	return run + gigaflops(100*float64(series)*n*(n+85)) // several regularizations, each sample left out
}

// bankWork returns the work of a draw of a bank: states and running sums, and the
// readout, a product and about nine factorizations and inverses of the smaller of its two
// systems, in numbers twice as long.
func bankWork(d *archive.Dataset, s reservoir.Spec) float64 {
	samples, series := 0, len(labeled(d, archive.Train))
	for i := range d.Series {
		samples += d.Len(i)
	}
	n, f := float64(series), float64(s.FeatureCount())
	m := min(n, f)
	return bankSteps(s, samples) + gigaflops(2*(n*f*m+9*(m*m*m+max(0, n-f)*f*f)))
}

func bankSteps(s reservoir.Spec, samples int) float64 {
	return float64(s.Members) * (steps(s, samples) + gigaflops(float64(samples)*float64(40*s.Units)))
}

// planModel plans the approximate remaining work of a model on a data set: draws are
// counted before their configuration is known.
func (r *runner) planModel(d *archive.Dataset, model string) {
	if isTrained(model) {
		r.planTraining(d, model)
		return
	}
	if isBank(model) {
		r.planBank(d, model)
		return
	}
	channels := len(d.Channels)
	series, train, test := len(labeled(d, archive.Train)), samples(d, archive.Train), samples(d, archive.Test)
	trials, draws := 0.0, 0.0
	for i, c := range r.settings.configurations(model)[:r.Configurations] {
		if _, ok := r.trials[key{d.Name, model, i}]; !ok {
			trials += r.settings.work(model, channels, c, train, series)
		}
	}
	for i := range r.Draws {
		if _, ok := r.draws[key{d.Name, model, i}]; !ok { // large networks win
			draws += r.settings.work(model, channels, Scales{Units: 170, Layers: 2}, train+test, series)
		}
	}
	r.setPlan(phase{d.Name, model, false}, trials)
	r.setPlan(phase{d.Name, model, true}, draws)
}

// planBank plans the draws of a bank, whose work is known.
func (r *runner) planBank(d *archive.Dataset, model string) {
	spec, draws := bankOptions(model, d).Spec, 0.0
	for i := range r.Draws {
		if !r.isDrawn(d, model, i) {
			draws += bankWork(d, spec)
		}
	}
	r.setPlan(phase{d.Name, model, true}, draws)
}

// samples counts the samples of a part through which a reservoir must advance: without
// the shared prefixes.
func samples(d *archive.Dataset, part archive.Split) (n int) {
	var series [][]float32
	for _, i := range labeled(d, part) {
		series = append(series, d.Series[i].Values)
		n += d.Len(i)
	}
	if _, lead := beginnings(series, len(d.Channels)); n > 0 {
		for _, l := range lead {
			n -= l
		}
	}
	return n
}
