package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/module"
	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// modules are those that the checks need, in Talos's root file system.
const modules = "/usr/lib/test-modules"

func machine() {
	defer powerOff()

	// A panic of process 1 would stop the machine before the results are out.
	defer func() {
		if p := recover(); p != nil {
			fmt.Println("panic:", p)
		}
	}()

	r, err := newRecorder("/dev/ttyS1")
	if err != nil {
		fmt.Println("opening the serial port for results:", err)

		return
	}
	defer r.finish()

	// Talos's init hands over an environment without one.
	if err := os.Setenv("PATH", "/usr/sbin:/usr/bin"); err != nil {
		fmt.Println(err)
	}

	var p plan.Plan

	ready := r.check("machine", "plan", func() error { return readPlan(&p) }) &&
		r.check("machine", "modules", func() error { return module.LoadAll(modules) }) &&
		r.check("machine", "mounts", mountLikeMachined)
	if !ready {
		return
	}

	if p.Second {
		checkLayout(r, p)
		checkAfterReboot(r, p)

		return
	}

	checkLayout(r, p)
	checkLabels(r, p)
	checkPlugins(r, p)
	checkExternalVLAN(r, p)
	plantShadows(r, p)
}

func readPlan(p *plan.Plan) error {
	text, err := os.ReadFile(plan.Path)
	if err != nil {
		return err
	}

	return json.Unmarshal(text, p)
}

func powerOff() {
	unix.Sync()

	// The overlay holds /var; without it the file system could not be left clean.
	_ = unix.Unmount("/opt", 0)
	_ = unix.Unmount("/var", 0)

	time.Sleep(100 * time.Millisecond) // the serial ports drain

	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
