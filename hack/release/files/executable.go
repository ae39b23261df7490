// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
)

// These are the machine types of the architectures in the header of each format.
var (
	elfMachines   = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	machoMachines = map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}
	peMachines    = map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}
)

// CheckExecutable returns an error if the content of a file is not a program for a platform. It supports the platforms
// of releases: linux, darwin and windows, with amd64 and arm64.
func CheckExecutable(content []byte, goos, arch string) error {
	var found, want any
	reader := bytes.NewReader(content)
	switch goos {
	case "linux":
		file, err := elf.NewFile(reader)
		if err != nil {
			return fmt.Errorf("this is no program for Linux: %w", err)
		}
		found, want = file.Machine, elfMachines[arch]
		if file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
			return fmt.Errorf("this file of Linux is no program: %s", file.Type)
		}
	case "darwin":
		file, err := macho.NewFile(reader)
		if err != nil {
			return fmt.Errorf("this is no program for macOS: %w", err)
		}
		found, want = file.Cpu, machoMachines[arch]
		if file.Type != macho.TypeExec {
			return fmt.Errorf("this file of macOS is no program: %s", file.Type)
		}
	case "windows":
		file, err := pe.NewFile(reader)
		if err != nil {
			return fmt.Errorf("this is no program for Windows: %w", err)
		}
		found, want = file.Machine, peMachines[arch]
		if file.Characteristics&pe.IMAGE_FILE_EXECUTABLE_IMAGE == 0 || file.Characteristics&pe.IMAGE_FILE_DLL != 0 {
			return fmt.Errorf("this file of Windows is no program: characteristics %#x", file.Characteristics)
		}
	default:
		return fmt.Errorf("releases have no programs for %s", goos)
	}
	if found != want {
		return fmt.Errorf("this program for %s is for the machine %v, not for %s", goos, found, arch)
	}
	return nil
}
