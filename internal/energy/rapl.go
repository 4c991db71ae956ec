package energy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Powercap is where Linux shows RAPL counters.
const Powercap = "/sys/class/powercap"

// mostWatts is more than any processor takes: what is counted faster is a
// counter that was set back or is none.
const mostWatts = 10e3

// RAPL is the sum of the energy counters of a machine's processor packages.
// Not safe for concurrent use.
type RAPL struct {
	zones  []zone
	joules float64
	at     time.Time
}

// zone is one counter, in microjoules, which goes back to 0 after most.
type zone struct {
	name, file string
	most, last uint64
}

// topZone are the zones that lie in no other. Those with a second number are
// part of a package and would count twice, as would those of intel-rapl-mmio,
// which are the same packages seen through another door.
var topZone = regexp.MustCompile(`^intel-rapl:[0-9]+$`)

// OpenRAPL finds the packages' counters under root, which is Powercap but in
// tests. Memory that is not part of a package is not counted, and a zone of the
// whole platform (psys) is left out: the packages are in it.
func OpenRAPL(root string) (*RAPL, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("energy: %w", err)
	}
	r := &RAPL{at: time.Now()}
	for _, e := range entries {
		if !topZone.MatchString(e.Name()) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		name, err := os.ReadFile(filepath.Join(dir, "name"))
		if err != nil {
			return nil, fmt.Errorf("energy: %w", err)
		}
		z := zone{name: strings.TrimSpace(string(name)), file: filepath.Join(dir, "energy_uj")}
		if !strings.HasPrefix(z.name, "package-") {
			continue
		}
		if z.most, err = counter(filepath.Join(dir, "max_energy_range_uj")); err != nil {
			return nil, err
		}
		if z.last, err = z.read(); err != nil {
			return nil, err
		}
		r.zones = append(r.zones, z)
	}
	if len(r.zones) == 0 {
		return nil, fmt.Errorf("energy: no RAPL counter of a processor package in %s: virtual machines and other systems than Linux have none", root)
	}
	return r, nil
}

// Source names what is counted.
func (r *RAPL) Source() string {
	var names []string
	for _, z := range r.zones {
		names = append(names, z.name)
	}
	return "RAPL " + strings.Join(names, ", ")
}

// Joules counts from the opening on. It must be called more often than a
// counter goes round, which takes minutes.
func (r *RAPL) Joules() (float64, error) {
	now := time.Now()
	most := mostWatts * (now.Sub(r.at).Seconds() + 1)
	sum := 0.0
	for i := range r.zones {
		z := &r.zones[i]
		v, err := z.read()
		if err != nil {
			return 0, err
		}
		more := v - z.last
		if v < z.last {
			more = z.most - z.last + v
		}
		z.last = v
		j := float64(more) / 1e6
		if j > most {
			return 0, fmt.Errorf("energy: %s: %.0f J more after %.3g s: the counter was set back or is none", z.file, j, now.Sub(r.at).Seconds())
		}
		sum += j
	}
	r.at = now
	r.joules += sum
	return r.joules, nil
}

func (z *zone) read() (uint64, error) {
	v, err := counter(z.file)
	if err == nil && v > z.most {
		err = fmt.Errorf("energy: %s: %d, which is beyond the counter's end %d", z.file, v, z.most)
	}
	return v, err
}

// counter reads a file of one number.
func counter(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return 0, denied(err, filepath.Dir(filepath.Dir(path)))
	}
	if err != nil {
		return 0, fmt.Errorf("energy: %w", err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("energy: %s: %w", path, err)
	}
	return v, nil
}

// denied says what lets a user read the counters, which Linux shows to root
// alone: their fine steps can betray what other programs compute.
func denied(err error, root string) error {
	return fmt.Errorf("energy: %w; until the next start of the machine this allows it: sudo chmod a+r %s/intel-rapl:*/energy_uj", err, root)
}
