package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func ipamScenarios() []scenario {
	return []scenario{
		{
			plugin:  "host-local",
			plugins: ptp,
			works: func(a *attachment, _ *namespace) error {
				if err := wantAddress(a, "10.77.0.20"); err != nil {
					return err
				}

				text, err := os.ReadFile(lease(a))
				if err != nil {
					return err
				}

				if want := a.runtime.ContainerID + "\r\n" + ifname; string(text) != want {
					return fmt.Errorf("the lease says %q, want %q", text, want)
				}

				return nil
			},
			gone: func(a *attachment) error {
				if _, err := os.Stat(lease(a)); err == nil {
					return fmt.Errorf("%s is still there", lease(a))
				}

				return nil
			},
		},
		{
			plugin:  "static",
			plugins: `{"type": "ptp", "ipam": {"type": "static", "addresses": [{"address": "10.77.0.200/24", "gateway": "10.77.0.1"}], "routes": [{"dst": "0.0.0.0/0"}]}}`,
			works: func(a *attachment, _ *namespace) error {
				if err := wantAddress(a, "10.77.0.200"); err != nil {
					return err
				}

				return reachesHost(a)
			},
		},
	}
}

func wantAddress(a *attachment, want string) error {
	if got := a.address.String(); got != want {
		return fmt.Errorf("the pod got %s, want %s", got, want)
	}

	return nil
}

func lease(a *attachment) string { return filepath.Join(leases, a.list.Name, a.address.String()) }
