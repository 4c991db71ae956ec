package offlinecmd

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// mergeFlag is --merge-classes.
type mergeFlag struct {
	texts  []string
	parsed map[string]string
}

func (m *mergeFlag) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&m.texts, "merge-classes", nil, "classes that count as another class, such as 3,9=normal; repeat the flag for other classes")
}

func (m *mergeFlag) parse() (err error) {
	if m.parsed, err = parseMerges(m.texts); err != nil {
		err = fmt.Errorf("--merge-classes %w", err)
	}
	return err
}

// parseMerges parses texts such as f03,f09=normal: the classes f03 and f09 count as normal. The
// result has the name of the other class, by the name of each.
func parseMerges(texts []string) (map[string]string, error) {
	m := map[string]string{}
	for _, text := range texts {
		at := strings.LastIndex(text, "=")
		if at < 1 || at == len(text)-1 {
			return nil, fmt.Errorf("%q: want classes and the class that they count as, such as 3,9=normal", text)
		}
		for name := range strings.SplitSeq(text[:at], ",") {
			if _, twice := m[name]; twice || name == "" {
				return nil, fmt.Errorf("%q: want each class once", text)
			}
			m[name] = text[at+1:]
		}
	}
	for _, to := range m {
		if _, merged := m[to]; merged {
			return nil, fmt.Errorf("class %q counts as another class: other classes cannot count as %[1]q", to)
		}
	}
	return m, nil
}
