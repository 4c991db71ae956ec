package edge

import (
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

//go:embed c
var sources embed.FS

// source returns a file of c/.
func source(name string) string {
	text, err := sources.ReadFile("c/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(text)
}

// header returns the whole file, with names that begin with eusn_.
func (x *export) header() (string, error) {
	var b strings.Builder
	x.writeComment(&b)
	b.WriteString("#ifndef EUSN_H\n#define EUSN_H\n\n#include <float.h>\n#include <stdint.h>\n\n")
	x.defineSizes(&b)
	x.declareAPI(&b)
	b.WriteString("#endif\n\n#if defined(EUSN_IMPLEMENTATION) && !defined(EUSN_IMPLEMENTED)\n#define EUSN_IMPLEMENTED\n\n")
	test, err := x.selftest()
	if err != nil {
		return "", err
	}
	x.writeArrays(&b, test)
	parts := []string{"arithmetic.h", "tanh.h", "root.h", "readout.h", "paper.h"}
	if x.mixed() {
		parts[4] = "mixed.h"
	}
	if x.model.Front != nil {
		parts = append(parts, "regime.h")
	}
	parts = append(parts, "begin.h", "scores.h")
	if x.readout.Interval == nil {
		parts = append(parts, "class.h")
	} else {
		parts = append(parts, "value.h")
	}
	if x.readout.Temperature > 0 {
		parts = append(parts, "probability.h")
	}
	if x.readout.Coverage != nil {
		parts = append(parts, "set.h")
	}
	for _, name := range parts {
		b.WriteString(source(name))
	}
	more := ""
	if x.readout.Temperature > 0 {
		more = fmt.Sprintf("bad |= eusn_u(eusn_probability(scores)) != UINT32_C(0x%08x);", math.Float32bits(test.probability))
	}
	b.WriteString(strings.Replace(source("selftest.h"), "\tEUSN_TEST_MORE\n", alignTabs(more), 1))
	b.WriteString("\n#endif\n")
	return b.String(), nil
}

func alignTabs(line string) string {
	if line == "" {
		return ""
	}
	return "\t" + line + "\n"
}

// writeComment writes the description and the usage of the file.
func (x *export) writeComment(b *strings.Builder) {
	s := x.net.Spec
	fmt.Fprintf(b, "/* A classifier of time series, written by eusn-stream model export.\n\n   Model   %s\n", x.fingerprint)
	fmt.Fprintf(b, "   Network %s, %d x %d units; channels: %s\n", s.Kind, s.Members, s.Units, plainText(strings.Join(x.model.Channels, ", ")))
	fmt.Fprintf(b, "   Policy  %s: it is yours to say where a sequence begins\n\n", policyText(x.model.Policy))
	fmt.Fprint(b, `   In one file:    #define EUSN_IMPLEMENTATION
                   #include this file
   In the others:  #include this file

   eusn_state s;                          one for each stream: no other memory is used
   float scores[EUSN_COLUMNS];
   if (eusn_selftest(&s)) ...             once: this compiler or processor changes results
   eusn_reset(&s);                        a sequence begins
   eusn_push(&s, sample);                 EUSN_CHANNELS values, again and again
   eusn_scores(&s, scores);               whenever a prediction is wanted
`)
	if x.readout.Interval == nil {
		b.WriteString("   eusn_class(scores)                     index into eusn_classes\n")
	} else {
		b.WriteString("   eusn_value(scores, &low, &high)        the number, and its interval\n")
	}
	if x.readout.Temperature > 0 {
		b.WriteString("   eusn_probability(scores)               of that class\n")
	}
	b.WriteString(`
   C99, no library. The results are those of eusn-stream, bit for bit, on every processor with
   IEEE 754 arithmetic, round to nearest and subnormal numbers. Do not compile with
   -ffast-math or -Ofast, and leave flush-to-zero off. */
`)
}

// plainText converts a text for a comment.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '*' || r == '\\' || r == '?' {
			return '_'
		}
		return r
	}, s)
}

func policyText(p reservoir.Policy) string {
	switch p.Kind {
	case reservoir.Window:
		return fmt.Sprintf("window of %d samples every %d", p.Length, p.Hop)
	case reservoir.Count:
		return fmt.Sprintf("count, every %d samples", p.Length)
	case reservoir.Gap:
		return fmt.Sprintf("gap, after %v of silence", p.Gap)
	}
	return string(p.Kind)
}

// defineSizes writes the sizes.
func (x *export) defineSizes(b *strings.Builder) {
	s, l, h := x.net.Spec, x.layout, x.readout
	d := func(name string, v int) { fmt.Fprintf(b, "#define EUSN_%s %d\n", name, v) }
	u := func(name string, v int) { fmt.Fprintf(b, "#define EUSN_%s %du\n", name, v) }
	flag := func(name string, v bool) {
		n := 0
		if v {
			n = 1
		}
		d(name, n)
	}
	fmt.Fprintf(b, "#define EUSN_MODEL %q\n", x.fingerprint)
	u("CHANNELS", s.Channels)
	u("CLASSES", len(h.Classes))
	u("COLUMNS", h.Columns())
	b.WriteString("#define EUSN_REFUSED 1  /* a value is not finite, or beyond 1e15: the sample was not taken */\n")
	b.WriteString("#define EUSN_TOO_LONG 2 /* a sequence has at most 4294967295 samples: this one was not taken */\n\n/* Sizes. */\n")
	u("WORDS", l.Words)
	u("INPUTS", s.Inputs())
	u("WORK", x.workSize())
	u("MEMBERS", s.Members)
	u("FEATURES", s.FeatureCount())
	u("FIRST", l.First)
	flag("STANDARDIZE", s.Standardize)
	flag("DIFFERENCE", s.Difference)
	u("PREVIOUS", max(0, l.Previous))
	flag("LIMITED", h.Limit != nil)
	if f := x.model.Front; f != nil {
		u("REGIMES", len(f.Regimes.Centers))
		u("SETTINGS", len(f.Regimes.Settings))
		b.WriteString("#define EUSN_REGIME(sample) eusn_regime(sample)\n#define EUSN_VALUE(x, regime, c) eusn_regime_value(x, regime, c)\n")
	} else {
		b.WriteString("#define EUSN_REGIME(sample) 0\n#define EUSN_VALUE(x, regime, c) ((void)(regime), (x))\n")
	}
	if h.Temperature > 0 {
		fmt.Fprintf(b, "#define EUSN_TEMPERATURE %s\n", strconv.FormatFloat(h.Temperature, 'x', -1, 64))
	}
	u("TEST_SAMPLES", selftestSamples)
	fmt.Fprintf(b, "#define EUSN_TANH_SATURATION %s\n#define EUSN_TANH_SHIFT %s\n", number(canon.Saturation), number(canon.TanhShift))
	if x.mixed() {
		m := l.Mixed
		u("RING_AT", m.Ring)
		u("SIGNS", m.Signs)
		u("LAGS", s.Taps.MaxLag)
		u("TAP_MEMBERS", s.Taps.Members)
		d("ACTIVATION", activation(s))
		fmt.Fprintf(b, "#define EUSN_CUBIC %s\n", number(canon.CubicFactor))
		return
	}
	u("UNITS", s.Units)
	u("MEMBER_WORDS", l.MemberWords)
	flag("RING", s.Kind == reservoir.RESN)
	d("SUM_LOW", l.SumLow)
	d("SUM_HIGH", l.SumHigh)
	d("POSITIVE", l.Positive)
	d("MAX", l.Max)
	d("SQUARE_LOW", l.SquareLow)
	d("SQUARE_HIGH", l.SquareHigh)
	d("FEATURE_BITS", featureBits(s))
}

// activation returns the number of a mixed bank's activation in c/mixed.h.
func activation(s reservoir.Spec) int {
	return map[reservoir.Activation]int{reservoir.Tanh: 0, reservoir.Cubic: 1, reservoir.Clip: 2}[s.Taps.Activation]
}

// featureBits returns a bit for each used feature of the paper's kinds.
func featureBits(s reservoir.Spec) (bits int) {
	for i, f := range reservoir.AllFeatures {
		if s.Has(f) {
			bits |= 1 << i
		}
	}
	return bits
}

// declareAPI writes the declarations for a program.
func (x *export) declareAPI(b *strings.Builder) {
	b.WriteString(`
typedef struct {
	uint32_t words[EUSN_WORDS]; /* the state of a stream, as eusn-stream stores it */
	float work[EUSN_WORK];
} eusn_state;

#ifdef __cplusplus
extern "C" {
#endif

void eusn_reset(eusn_state *s);
int eusn_push(eusn_state *s, const float *sample);        /* 0, EUSN_REFUSED or EUSN_TOO_LONG */
void eusn_scores(const eusn_state *s, float *scores);     /* EUSN_COLUMNS of them */
int eusn_selftest(eusn_state *s);                         /* 0: results are right; resets s */
`)
	h := x.readout
	if h.Interval != nil {
		b.WriteString("float eusn_value(const float *scores, float *low, float *high);\n")
	} else {
		b.WriteString("int eusn_class(const float *scores);                      /* 0 to EUSN_CLASSES - 1 */\n")
		b.WriteString("extern const char *const eusn_classes[EUSN_CLASSES];\n")
	}
	if h.Temperature > 0 {
		b.WriteString("float eusn_probability(const float *scores);              /* of that class */\n")
	}
	if h.Coverage != nil {
		fmt.Fprintf(b, "int eusn_set(const float *scores, unsigned char *in);     /* which classes are in the set that holds the true one with %.4g %%; how many */\n", 100*h.Coverage.Level)
	}
	if h.Abstain != nil {
		fmt.Fprintf(b, "#define eusn_answers(probability) ((double)(probability) > %s) /* else it abstains */\n", strconv.FormatFloat(h.Abstain.Above, 'x', -1, 64))
	}
	b.WriteString("\n#ifdef __cplusplus\n}\n#endif\n\n")
}
