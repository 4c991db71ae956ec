package figures

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// phaseRange is the range of both axes of a portrait.
const phaseRange = 1.

// Picture draws Fig. 1.
func (f *Portraits) Picture() Picture {
	return Picture{8 * vg.Inch, 8.4 * vg.Inch, func(c draw.Canvas) {
		c = headline(c, "Fig. 1: phase portraits of two units without input",
			"Dots: initial states. Gray: direction of the step. Leak rate .001; EuSN: ε = γ = .001; 20000 steps.")
		var all []*plot.Plot
		for i := range f.Panels {
			p := &f.Panels[i]
			panel := newPlot(p.Title, "state of unit 1", "state of unit 2")
			for _, a := range []*plot.Axis{&panel.X, &panel.Y} {
				a.Min, a.Max = -phaseRange, phaseRange
				a.Tick.Marker = ticks(plot.Tick{Value: -1, Label: "-1"}, plot.Tick{Value: -.5, Label: "-.5"}, plot.Tick{Value: 0, Label: "0"},
					plot.Tick{Value: .5, Label: ".5"}, plot.Tick{Value: 1, Label: "1"})
			}
			panel.Add(field{p})
			for k, o := range p.Orbits {
				panel.Add(orbit{o, k})
			}
			all = append(all, panel)
		}
		drawPanels(c, 2, all)
	}}
}

// field draws the direction of a reservoir at the points of a lattice.
type field struct{ portrait *Portrait }

func (f field) Plot(c draw.Canvas, p *plot.Plot) {
	const lattice = 14 // points per side
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: faint, Width: .6}
	for i := range lattice {
		for j := range lattice {
			at := func(k int) float64 { return phaseRange * (2*(float64(k)+.5)/lattice - 1) }
			h := [2]float64{at(i), at(j)}
			next := f.portrait.step(h)
			const length = 9
			d := direction(vg.Point{X: x(next[0]) - x(h[0]), Y: y(next[1]) - y(h[1])})
			from := vg.Point{X: x(h[0]) - d.X*length/2, Y: y(h[1]) - d.Y*length/2}
			to := vg.Point{X: from.X + d.X*length, Y: from.Y + d.Y*length}
			c.StrokeLine2(style, from.X, from.Y, to.X, to.Y)
			arrowhead(c, faint, to, d, 3)
		}
	}
}

// arrowhead draws a triangle with its tip at tip, in the direction of the unit vector d.
func arrowhead(c draw.Canvas, col color.Color, tip, d vg.Point, size vg.Length) {
	back := vg.Point{X: tip.X - d.X*size, Y: tip.Y - d.Y*size}
	side := vg.Point{X: -d.Y * size / 2, Y: d.X * size / 2}
	c.FillPolygon(col, []vg.Point{tip, {X: back.X + side.X, Y: back.Y + side.Y}, {X: back.X - side.X, Y: back.Y - side.Y}})
}

// orbit draws one orbit: its initial state, its line and its direction.
type orbit struct {
	Orbit
	index int // of the color
}

func (o orbit) color() color.Color { return lineColors[o.index] }

func (o orbit) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := make([]vg.Point, len(o.Points))
	for i, h := range o.Points {
		line[i] = vg.Point{X: x(h[0]), Y: y(h[1])}
	}
	c.StrokeLines(draw.LineStyle{Color: o.color(), Width: 1.6}, line)
	// An arrow, as soon as the orbit is long enough to be visible.
	const far = 24
	walked := 0.
	for i := 1; i < len(line) && walked < far; i++ {
		d := line[i].Sub(line[i-1])
		if walked += math.Hypot(float64(d.X), float64(d.Y)); walked >= far {
			arrowhead(c, o.color(), line[i], direction(d), 8)
		}
	}
	c.DrawGlyph(draw.GlyphStyle{Color: o.color(), Radius: 3.5, Shape: draw.CircleGlyph{}}, line[0])
	// The name is at a place that the orbit does not cross: before its start, and
	// outside.
	const outside = .8
	ahead := direction(line[1].Sub(line[0]))
	out := direction(line[0].Sub(vg.Point{X: x(0), Y: y(0)}))
	to := direction(vg.Point{X: outside*out.X - ahead.X, Y: outside*out.Y - ahead.Y})
	name := draw.TextStyle{Color: o.color(), Font: sans(11, true), Handler: p.TextHandler, XAlign: draw.XCenter, YAlign: draw.YCenter}
	c.FillText(name, vg.Point{X: line[0].X + 13*to.X, Y: line[0].Y + 13*to.Y}, o.Start)
}

// direction returns d with length 1, or 0 if d is 0.
func direction(d vg.Point) vg.Point {
	if size := vg.Length(math.Hypot(float64(d.X), float64(d.Y))); size > 0 {
		return vg.Point{X: d.X / size, Y: d.Y / size}
	}
	return vg.Point{}
}
