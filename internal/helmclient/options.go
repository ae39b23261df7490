/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

const (
	// DefaultTimeout is how long an action may take where its options don't say.
	DefaultTimeout = 5 * time.Minute
	// DefaultMaxHistory is the number of revisions that Helm keeps where the options don't say.
	DefaultMaxHistory = 10
)

// Options are how the actions on a release are carried out. The zero value holds the defaults.
type Options struct {
	Install   InstallOptions
	Upgrade   UpgradeOptions
	Uninstall UninstallOptions
	// SecretValues are those values, in maps and lists of any depth, that came from Secrets. None of their texts appears in
	// an error, whatever its key. They shape nothing.
	SecretValues []any
}

// InstallOptions are the options of an install.
type InstallOptions struct {
	// Timeout bounds the whole install, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// CreateNamespace creates the release's namespace where it is missing. Nil means true.
	CreateNamespace *bool
	// SkipCRDs leaves out what is in the chart's folder crds.
	SkipCRDs bool
	// TakeOwnership adopts objects that exist already, whoever made them.
	TakeOwnership bool
	// DisableOpenAPIValidation leaves out the check of the objects against the cluster's schema. Clusters since
	// Kubernetes 1.25 check by themselves, there this changes nothing.
	DisableOpenAPIValidation bool
}

// UpgradeOptions are the options of an upgrade.
type UpgradeOptions struct {
	// Timeout bounds the whole upgrade, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// Force replaces objects rather than patching them.
	Force bool
	// MaxHistory is the number of revisions to keep. Nil means [DefaultMaxHistory], zero keeps all.
	MaxHistory *int
	// CleanupOnFail deletes the objects that a failed upgrade had newly created.
	CleanupOnFail bool
	// TakeOwnership adopts objects that exist already, whoever made them.
	TakeOwnership bool
	// DisableOpenAPIValidation is as in [InstallOptions].
	DisableOpenAPIValidation bool
}

// UninstallOptions are the options of an uninstall.
type UninstallOptions struct {
	// Timeout bounds the whole uninstall, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// KeepHistory keeps Helm's records of the release, marked as uninstalled.
	KeepHistory bool
}

func (o InstallOptions) timeout() time.Duration   { return timeoutOr(o.Timeout) }
func (o UpgradeOptions) timeout() time.Duration   { return timeoutOr(o.Timeout) }
func (o UninstallOptions) timeout() time.Duration { return timeoutOr(o.Timeout) }

func (o InstallOptions) createNamespace() bool {
	return o.CreateNamespace == nil || *o.CreateNamespace
}

func (o UpgradeOptions) maxHistory() int {
	if o.MaxHistory == nil {
		return DefaultMaxHistory
	}
	return *o.MaxHistory
}

func timeoutOr(d time.Duration) time.Duration {
	if d <= 0 {
		return DefaultTimeout
	}
	return d
}

// shapingOptions are the options that change what Helm writes, with defaults filled in, so that an option which is
// set to its default digests as one that is not set. A field added later must be omitted from the JSON at its
// default: otherwise a new version of the controller would upgrade every release of every cluster.
type shapingOptions struct {
	InstallDisableHooks   bool `json:"installDisableHooks,omitempty"`
	InstallKeepNamespace  bool `json:"installKeepNamespace,omitempty"`
	InstallSkipCRDs       bool `json:"installSkipCRDs,omitempty"`
	InstallTakeOwnership  bool `json:"installTakeOwnership,omitempty"`
	InstallSkipValidation bool `json:"installSkipValidation,omitempty"`
	UpgradeDisableHooks   bool `json:"upgradeDisableHooks,omitempty"`
	UpgradeForce          bool `json:"upgradeForce,omitempty"`
	UpgradeMaxHistory     *int `json:"upgradeMaxHistory,omitempty"`
	UpgradeCleanupOnFail  bool `json:"upgradeCleanupOnFail,omitempty"`
	UpgradeTakeOwnership  bool `json:"upgradeTakeOwnership,omitempty"`
	UpgradeSkipValidation bool `json:"upgradeSkipValidation,omitempty"`
}

// OptionsDigest returns the sha256, as hex digits, of those options that shape what Helm writes. Timeouts and the
// options of an uninstall are not among them: changing those is no reason for an upgrade.
func OptionsDigest(o Options) string {
	shaping := shapingOptions{
		InstallDisableHooks:   o.Install.DisableHooks,
		InstallKeepNamespace:  !o.Install.createNamespace(),
		InstallSkipCRDs:       o.Install.SkipCRDs,
		InstallTakeOwnership:  o.Install.TakeOwnership,
		InstallSkipValidation: o.Install.DisableOpenAPIValidation,
		UpgradeDisableHooks:   o.Upgrade.DisableHooks,
		UpgradeForce:          o.Upgrade.Force,
		UpgradeCleanupOnFail:  o.Upgrade.CleanupOnFail,
		UpgradeTakeOwnership:  o.Upgrade.TakeOwnership,
		UpgradeSkipValidation: o.Upgrade.DisableOpenAPIValidation,
	}
	if n := o.Upgrade.maxHistory(); n != DefaultMaxHistory {
		shaping.UpgradeMaxHistory = &n
	}
	// A struct of booleans and integers always marshals.
	data, _ := json.Marshal(shaping)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
