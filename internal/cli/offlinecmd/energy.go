package offlinecmd

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

var (
	// cpuMeter opens the processor's counters; tests have their own.
	cpuMeter = func() (energy.Meter, error) { return energy.OpenRAPL(energy.Powercap) }
	// idleTime is how long power at rest is measured.
	idleTime = 5 * time.Second
)

// metering holds the energy counters of an offline job, until close.
type metering struct {
	accounts   energy.Accounts
	unmeasured []string // missing measurements, with reasons
	close      func()
}

// meterEnergy opens the energy counters of the engine: the processor's, and those of the cards that a GPU engine may
// use.
func meterEnergy(engine string) *metering {
	m := &metering{close: func() {}}
	if meter, err := cpuMeter(); err != nil {
		m.lacks("CPU", err)
	} else {
		m.accounts.CPU = m.account("CPU", meter)
	}
	if !engines.IsGPU(engine) {
		return m
	}
	devices, err := gpu.Devices()
	if err != nil {
		return m // a missing engine is reported elsewhere
	}
	cards, err := telemetry.Open()
	if err != nil {
		m.lacks("GPU", err)
		return m
	}
	m.accounts.GPU = m.account("GPU", newCardMeter(cards.Read, devices))
	m.close = func() { _ = cards.Close() }
	return m
}

func (m *metering) account(device string, meter energy.Meter) *energy.Account {
	a, err := energy.NewAccount(meter)
	if err != nil {
		m.lacks(device, err)
	}
	return a
}

func (m *metering) lacks(device string, err error) {
	m.unmeasured = append(m.unmeasured, fmt.Sprintf("energy of the %s is not measured: %s", device, cli.ErrorText(err)))
}

// end closes the counters and records missing measurements.
func (m *metering) end(cells []paper.Cell) {
	for _, d := range []struct {
		name    string
		account *energy.Account
		of      func(energy.Used) *energy.Amount
	}{
		{"CPU", m.accounts.CPU, func(u energy.Used) *energy.Amount { return u.CPU }},
		{"GPU", m.accounts.GPU, func(u energy.Used) *energy.Amount { return u.GPU }},
	} {
		if d.account == nil {
			continue
		}
		d.account.Close()
		unknown := 0
		for _, c := range cells {
			if c.Missing == "" && (d.of(c.Energy) == nil || c.Configurations > 0 && d.of(c.SearchEnergy) == nil) {
				unknown++
			}
		}
		if err := d.account.Err(); err != nil {
			m.lacks(d.name, err)
		} else if unknown > 0 {
			m.lacks(d.name, fmt.Errorf("%d of %d cells have trials or draws that ran without a counter, or too briefly for it to change", unknown, len(cells)))
		}
	}
	m.close()
}

// cardMeter adds up the energy of cards: by a card's own counter, or without a counter by its power from reading to
// reading.
type cardMeter struct {
	read  func() ([]telemetry.Reading, error)
	cards []*card
}

type card struct {
	pci, name     string
	joules        float64 // so far
	at            time.Time
	energy, power float64 // of the last reading
}

func newCardMeter(read func() ([]telemetry.Reading, error), devices []gpu.Device) *cardMeter {
	m := &cardMeter{read: read}
	for _, d := range devices {
		m.cards = append(m.cards, &card{pci: d.PCI, name: d.Name})
	}
	return m
}

func (m *cardMeter) Source() string {
	s := "NVML"
	for _, c := range m.cards {
		s += " " + c.pci
	}
	return s
}

func (m *cardMeter) Joules() (sum float64, err error) {
	list, err := m.read()
	if err != nil {
		return 0, err
	}
	now := time.Now()
	for _, c := range m.cards {
		i := slices.IndexFunc(list, func(v telemetry.Reading) bool { return v.PCI == c.pci })
		if i < 0 {
			return 0, fmt.Errorf("NVML has no card at %s", c.pci)
		}
		v, first := list[i], c.at.IsZero()
		switch {
		case first:
		case !slices.Contains(v.Missing, "energy_j"):
			c.joules += v.Energy - c.energy
		case !slices.Contains(v.Missing, "power_w"):
			c.joules += (c.power + v.Power) / 2 * now.Sub(c.at).Seconds()
		}
		if slices.Contains(v.Missing, "energy_j") && slices.Contains(v.Missing, "power_w") {
			return 0, fmt.Errorf("%s reports neither energy nor power", c.name)
		}
		c.at, c.energy, c.power = now, v.Energy, v.Power
		sum += c.joules
	}
	return sum, nil
}
