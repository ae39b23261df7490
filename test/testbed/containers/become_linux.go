// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// devices are the devices that each container has.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// lastCapability is the file with the number of the last capability of the kernel.
const lastCapability = "/proc/sys/kernel/cap_last_cap"

// Unsupported returns why this machine cannot run containers; nil if it can.
func Unsupported() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount file systems and take another user id")
	}
	result := make(chan error)
	go func() {
		// The thread ends with the goroutine, and its mount namespace with the thread.
		runtime.LockOSThread()
		result <- privateMounts()
	}()
	return <-result
}

// privateMounts gives the thread its own mount namespace.
func privateMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("create a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mount namespace: %w", err)
	}
	return nil
}

// become replaces this process by the container that a folder describes. It returns only after a failure.
func become(folder string) error {
	spec, err := read(folder)
	if err != nil {
		return err
	}
	// The mount namespace belongs to the thread. So does everything that execve keeps.
	runtime.LockOSThread()
	if err := privateMounts(); err != nil {
		return err
	}
	root := filepath.Join(folder, "root")
	if err := spec.mount(root); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("replace the root file system: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("remove the root file system of the machine: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := spec.dropRights(); err != nil {
		return err
	}
	return unix.Exec(spec.Command[0], spec.Command, spec.Env)
}

// mount builds the root file system in a folder.
func (s Spec) mount(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the root file system: %w", err)
	}
	files := map[string]string{"/proc": "/proc"}
	for _, device := range devices {
		files["/dev/"+device] = "/dev/" + device
	}
	for path, from := range files {
		// Devices and processes must be writable.
		if err := bind(from, filepath.Join(root, path), 0); err != nil {
			return err
		}
	}
	for path, from := range s.Files {
		if err := bind(from, filepath.Join(root, path), unix.MS_RDONLY); err != nil {
			return err
		}
	}
	for _, volume := range s.Volumes {
		at := filepath.Join(root, volume.Path)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		// As a kubelet does: all users may write to an emptyDir, and new files belong to the fsGroup of the Pod.
		options := fmt.Sprintf("mode=2777,gid=%d", s.VolumeGroup)
		if volume.Size > 0 {
			options += ",size=" + strconv.FormatInt(volume.Size, 10)
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
		if volume.ReadOnly {
			flags |= unix.MS_RDONLY
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", flags, options); err != nil {
			return fmt.Errorf("mount the volume %s: %w", volume.Path, err)
		}
	}
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the root file system read-only: %w", err)
	}
	return nil
}

// bind mounts a file or a folder, with further flags.
func bind(from, at string, flags uintptr) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", from, err)
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("mount %s read-only: %w", from, err)
	}
	return nil
}

// dropRights changes to the user of the container, without capabilities and without a way to get any.
func (s Spec) dropRights() error {
	last, err := os.ReadFile(lastCapability)
	if err != nil {
		return err
	}
	highest, err := strconv.Atoi(string(last[:max(0, len(last)-1)]))
	if err != nil {
		return fmt.Errorf("read %s: %w", lastCapability, err)
	}
	for capability := range highest + 1 {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	// With another user id than root's, the kernel also clears all other sets of capabilities.
	if err := syscall.Setgroups([]int{s.VolumeGroup}); err != nil {
		return err
	}
	if err := syscall.Setresgid(s.Group, s.Group, s.Group); err != nil {
		return err
	}
	if err := syscall.Setresuid(s.User, s.User, s.User); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
