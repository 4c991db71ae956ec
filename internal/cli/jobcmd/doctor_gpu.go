package jobcmd

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

// checkGPU reports the usable GPU, or the reason why there is none.
func checkGPU() Finding {
	devices, err := gpu.Devices()
	if err != nil {
		s := fmt.Sprintf("%s; the stage runs on the CPU.", cli.ErrorText(err))
		if driver, n := hardware.NVIDIA(); n > 0 || driver != "" {
			s = fmt.Sprintf("%d NVIDIA device(s) and driver %s are present, but: %s", n, driver, s)
		}
		return Finding{"gpu", "note", s}
	}
	s := ""
	for _, d := range devices {
		s += fmt.Sprintf("%s, %.0f GiB, compute capability %s%s; ", d.Name, float64(d.Memory)/(1<<30), d.Capability, vitals(d.PCI))
	}
	return Finding{"gpu", "ok", s + "the driver offers CUDA " + devices[0].DriverVersion + "."}
}

// vitals describes a GPU's current readings; empty without readings.
func vitals(pci string) string {
	r, err := telemetry.Open()
	if err != nil {
		return ""
	}
	defer r.Close()
	list, _ := r.Read() // an error leaves the list empty
	for _, v := range list {
		if v.PCI == pci {
			return fmt.Sprintf(", now %.1f GiB used, %.0f W, %.0f C", float64(v.MemoryUsed)/(1<<30), v.Power, v.Temperature)
		}
	}
	return ""
}
