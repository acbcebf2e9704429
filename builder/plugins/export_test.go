package plugins

import (
	"time"

	"github.com/cnibake/cnibake/profiles"
)

// VerifyBuilt compares a program's build info with the pin.
func VerifyBuilt(name string, pin profiles.Pin, plugin profiles.Plugin, arch string) error {
	return verifyBuilt(name, pin, plugin, arch)
}

// VerifyMerged compares a merged program's build info with the pin.
func VerifyMerged(name string, pin profiles.Pin, arch string) error {
	return verifyMerged(name, pin, arch)
}

// GenerateMerged returns the sources of a merged program.
func GenerateMerged(moduleDir, name string, pin profiles.Pin, arch string, selection []profiles.Plugin) (map[string][]byte, error) {
	return generateMerged(moduleDir, name, pin, arch, selection)
}

// Impatient shortens what a release source waits for, and bounds what it downloads.
func (s *ReleaseSource) Impatient(retryInterval, stallTimeout time.Duration, maxDownload int64) {
	s.retryInterval, s.stallTimeout, s.maxDownload = retryInterval, stallTimeout, maxDownload
}
