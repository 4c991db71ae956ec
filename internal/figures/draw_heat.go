package figures

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Picture draws Fig. 2: the mean over the draws of rho(J) - 1.
func (f *Radius) Picture() Picture {
	m := heatMap{
		Grid: f.Grid, title: "Fig. 2: effective spectral radius ρ(J) of EuSN, as ρ(J) - 1",
		scale: "ρ(J) - 1", below: "Dashed: ρ(J) = 1.",
		value: func(i int) float64 { return f.Rows[i].Excess }, holds: func(i int) bool { return f.Rows[i].holds() },
	}
	m.neutral = func(i int, eps float64) float64 { // gamma << rho in the interesting range
		return eps * f.Rows[i].Rho * f.Rows[i].Rho / 2
	}
	return m.picture()
}

// Picture draws Fig. 3: the mean over the draws of the maximum local Lyapunov
// exponent.
func (f *Lyapunov) Picture() Picture {
	return heatMap{
		Grid: f.Grid, title: "Fig. 3: maximum local Lyapunov exponent (MLLE) of EuSN",
		scale: "MLLE, nats per step", below: fmt.Sprintf("Input uniform in [-.5, .5], %d steps.", f.Grid.Steps),
		value: func(i int) float64 { return f.Rows[i].Most }, holds: func(i int) bool { return f.Rows[i].holds() },
	}.picture()
}

// heatMap is a panel per recurrent scale, gamma over eps.
type heatMap struct {
	Grid
	title, below, scale string
	value               func(i int) float64 // of Grid.cells
	holds               func(i int) bool
	neutral             func(i int, eps float64) float64 // the gamma of a line, or nil
}

func (m heatMap) picture() Picture {
	return Picture{8.6 * vg.Inch, 7.6 * vg.Inch, func(c draw.Canvas) {
		c = headline(c, m.title, fmt.Sprintf("N = %d, mean of %d draws. %s Blue: contracting; orange: expanding.", m.Units, m.Draws, m.below))
		const bar = 92
		columns := 2
		if len(m.Recurrent) == 1 {
			columns = 1
		}
		var all []*plot.Plot
		for r, scale := range m.Recurrent {
			p := newPlot(fmt.Sprintf("recurrent scale ω = %g", scale), "step size ε", "diffusion γ")
			setDecades(&p.X, m.Eps)
			setDecades(&p.Y, m.Gamma)
			p.Add(heat{m, r})
			all = append(all, p)
		}
		drawPanels(draw.Crop(c, 0, -bar, 0, 0), columns, all)
		m.drawBar(draw.Crop(c, c.Max.X-c.Min.X-bar+24, 0, 40, -40))
	}}
}

// setDecades makes an axis of cells: value i is at i, with every third decade labeled.
func setDecades(a *plot.Axis, values []float64) {
	a.Min, a.Max = -.5, float64(len(values))-.5
	named := max(1, (len(values)+3)/4)
	var marks []plot.Tick
	for i := 0; i < len(values); i += named {
		marks = append(marks, plot.Tick{Value: float64(i), Label: formatDecade(values[i])})
	}
	a.Tick.Marker = ticks(marks...)
}

// formatDecade writes 1e-5 instead of fmt's 1e-05.
func formatDecade(v float64) string {
	if v < .01 {
		return strings.Replace(strconv.FormatFloat(v, 'e', -1, 64), "e-0", "e-", 1)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// mean returns the mean over the draws of a cell.
func (m heatMap) mean(first int) float64 {
	sum := 0.
	for d := range m.Draws {
		sum += m.value(first + d)
	}
	return sum / float64(m.Draws)
}

// heat is a panel.
type heat struct {
	heatMap
	recurrent int
}

func (h heat) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	gap := draw.LineStyle{Color: color.White, Width: .5}
	for j := range h.Gamma {
		for i := range h.Eps {
			first := h.firstDraw(h.recurrent, j, i)
			x0, x1, y0, y1 := x(float64(i)-.5), x(float64(i)+.5), y(float64(j)-.5), y(float64(j)+.5)
			corners := []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}, {X: x0, Y: y0}}
			c.FillPolygon(signedColor(signedLog(h.mean(first))), corners)
			c.StrokeLines(gap, corners)
			for d := range h.Draws {
				if !h.holds(first + d) {
					cross := draw.LineStyle{Color: color.Black, Width: 2}
					c.StrokeLine2(cross, x0, y0, x1, y1)
					c.StrokeLine2(cross, x0, y1, x1, y0)
				}
			}
		}
	}
	if h.neutral != nil {
		h.drawNeutral(c, p)
	}
}

// drawNeutral draws the neutral line between the centers of cells, in the logarithms.
func (h heat) drawNeutral(c draw.Canvas, p *plot.Plot) {
	if len(h.Eps) < 2 || len(h.Gamma) < 2 {
		return
	}
	x, y := p.Transforms(&c)
	place := func(values []float64, v float64) float64 {
		k := 1
		for k < len(values)-1 && v > values[k] {
			k++
		}
		return float64(k) - math.Log(values[k]/v)/math.Log(values[k]/values[k-1])
	}
	var line []vg.Point
	const fine = 20
	for s := range (len(h.Eps) + 1) * fine {
		at := -.5 + float64(s)/fine
		if at > float64(len(h.Eps))-.5 {
			break
		}
		k := min(max(int(math.Floor(at)), 0), len(h.Eps)-2)
		eps := h.Eps[k] * math.Pow(h.Eps[k+1]/h.Eps[k], at-float64(k))
		gamma := 0.
		for d := range h.Draws {
			gamma += h.neutral(h.firstDraw(h.recurrent, 0, 0)+d, eps) / float64(h.Draws)
		}
		if g := place(h.Gamma, gamma); g >= -.5 && g <= float64(len(h.Gamma))-.5 {
			line = append(line, vg.Point{X: x(at), Y: y(g)})
		}
	}
	if len(line) > 1 {
		c.StrokeLines(draw.LineStyle{Color: ink, Width: 1.4, Dashes: []vg.Length{5, 3}}, line)
	}
}

// smallestDecade is the smallest decade of the color scale: logarithmic on both sides of
// 0, up to a size of 1.
const smallestDecade = -20

// signedLog maps sizes of 1e-20 to 1 to 0 to 1, with the sign of v.
func signedLog(v float64) float64 {
	if v == 0 || math.IsNaN(v) {
		return 0
	}
	s := 1 - math.Log10(math.Abs(v))/smallestDecade
	return math.Copysign(min(max(s, 0), 1), v)
}

// signedColor maps -1 to 1 to blue, near white, orange; lightness shows sizes and hue the
// sign, for every kind of color vision.
func signedColor(s float64) color.NRGBA {
	dark, light := [3]float64{0x05, 0x3c, 0x7d}, [3]float64{0xd6, 0xe7, 0xf5}
	if s > 0 {
		dark, light = [3]float64{0x8c, 0x2d, 0x04}, [3]float64{0xfe, 0xec, 0xd2}
	}
	middle := [3]float64{0x55, 0x9f, 0xd0}
	if s > 0 {
		middle = [3]float64{0xf5, 0x8f, 0x35}
	}
	a := math.Abs(s)
	if a == 0 {
		return color.NRGBA{0xff, 0xff, 0xff, 0xff}
	}
	from, to, t := light, middle, 2*a
	if a > .5 {
		from, to, t = middle, dark, 2*a-1
	}
	var rgb [3]uint8
	for i := range rgb {
		rgb[i] = uint8(from[i] + (to[i]-from[i])*t + .5)
	}
	return color.NRGBA{rgb[0], rgb[1], rgb[2], 0xff}
}

// drawBar draws the color scale.
func (m heatMap) drawBar(c draw.Canvas) {
	p := newPlot("", "", m.scale)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, -1, 1
	p.HideX()
	var marks []plot.Tick
	for d := smallestDecade; d <= 0; d += 5 {
		s := signedLog(math.Pow10(d))
		if d == smallestDecade {
			marks = append(marks, plot.Tick{Value: 0, Label: "0"})
			continue
		}
		label := formatDecade(math.Pow10(d))
		marks = append(marks, plot.Tick{Value: s, Label: label}, plot.Tick{Value: -s, Label: "-" + label})
	}
	p.Y.Tick.Marker = ticks(marks...)
	p.Add(barCells{})
	p.Draw(c)
}

type barCells struct{}

func (barCells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	const n = -2 * smallestDecade // a band per decade
	for i := range n {
		lo, hi := float64(2*i)/n-1, float64(2*i+2)/n-1
		// One point of overlap hides the seam.
		c.FillPolygon(signedColor((lo+hi)/2), []vg.Point{{X: x(0), Y: y(lo) - 1}, {X: x(1), Y: y(lo) - 1}, {X: x(1), Y: y(hi)}, {X: x(0), Y: y(hi)}})
	}
}
