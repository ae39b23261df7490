// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

const (
	// DefaultTimeout is the timeout of an action whose options set none.
	DefaultTimeout = 5 * time.Minute
	// DefaultMaxHistory is the default number of revisions that Helm keeps.
	DefaultMaxHistory = 10
)

// Options configure the actions on a release. The zero value holds the defaults.
type Options struct {
	Install   InstallOptions
	Upgrade   UpgradeOptions
	Rollback  RollbackOptions
	Uninstall UninstallOptions
	Test      TestOptions
	// PostRender changes the rendered objects. Its templates are already rendered for the cluster. Its digest is
	// [Desired].PostRenderDigest.
	PostRender *PostRender
	// SecretValues are the values from Secrets, in maps and lists of any depth. Their texts never appear in an error. They
	// do not shape the release.
	SecretValues []any
	// Admit, if set, is called before an upgrade, a rollback or an uninstallation that would delete objects. If it returns
	// an error, the action fails with an error of the kind ErrRefused before the action changes anything. Admit does not
	// shape the release.
	Admit func(Loss) error
	// BeforeRender, if set, is called each time before code of the chart runs: its templates, schemas or patches. If it
	// returns an error, the action fails. It is not called if the result is known to be a failure. It does not shape the
	// release.
	BeforeRender func() error
	// Progress, if set, receives a short description of the current step of an action, for example the awaited hook. It
	// must return at once and may be called from any goroutine. It does not shape the release.
	Progress func(what string)
	// Stop, if set, ends an action's waits for hooks and tests when Stop is done. The action then fails as after a
	// timeout, and its error has the cause. Running requests are not cancelled, and an uninstallation continues. Stop does
	// not shape the release.
	Stop context.Context
	// KeepManifest caches the manifest of the new Helm revision, compressed, for calls of Manifest of the client. It does
	// not shape the release.
	KeepManifest bool
}

// CRDPolicy defines what happens to the objects in the chart's folder crds.
type CRDPolicy string

const (
	// CRDsCreate creates objects that do not exist. It is the default.
	CRDsCreate CRDPolicy = ""
	// CRDsSkip skips the objects.
	CRDsSkip CRDPolicy = "Skip"
	// CRDsCreateReplace creates objects that do not exist and replaces objects that exist.
	CRDsCreateReplace CRDPolicy = "CreateReplace"
)

// ValuesPolicy defines how an upgrade uses the values of the previous revision.
type ValuesPolicy string

const (
	// ValuesReset ignores the values of the previous revision. It is the default.
	ValuesReset ValuesPolicy = ""
	// ValuesReuse merges the desired values over all values of the previous revision, including the defaults of its chart.
	ValuesReuse ValuesPolicy = "Reuse"
	// ValuesResetThenReuse merges the desired values over the user-supplied values of the previous revision, and the
	// result over the defaults of the new chart.
	ValuesResetThenReuse ValuesPolicy = "ResetThenReuse"
)

// InstallOptions are the options of an installation.
type InstallOptions struct {
	// Timeout bounds the whole installation, including hooks. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks skips the hooks.
	DisableHooks bool
	// CreateNamespace creates the release's namespace if it does not exist. Nil means false if the target is
	// impersonated, and true otherwise.
	CreateNamespace *bool
	// NamespaceLabels and NamespaceAnnotations are set on the release's namespace with every installation and upgrade.
	NamespaceLabels, NamespaceAnnotations map[string]string
	// CRDs defines what happens to the objects in the chart's folder crds.
	CRDs CRDPolicy
	// TakeOwnership adopts existing objects, also objects of other owners.
	TakeOwnership bool
	// DisableOpenAPIValidation skips the validation of the objects with the cluster's schema. It has no effect on clusters
	// since Kubernetes 1.25, because their API servers validate objects themselves.
	DisableOpenAPIValidation bool
	// DisableSchemaValidation skips the validation of the values with the chart's schema.
	DisableSchemaValidation bool
}

// UpgradeOptions are the options of an upgrade.
type UpgradeOptions struct {
	// Timeout bounds the whole upgrade, including hooks. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks skips the hooks.
	DisableHooks bool
	// Force replaces objects instead of patching them.
	Force bool
	// MaxHistory is the number of revisions to keep. Nil means [DefaultMaxHistory], zero keeps all.
	MaxHistory *int
	// CleanupOnFail deletes the objects that a failed upgrade created.
	CleanupOnFail bool
	// TakeOwnership adopts existing objects, also objects of other owners.
	TakeOwnership bool
	// Values defines how the upgrade uses the values of the previous revision.
	Values ValuesPolicy
	// CRDs defines what happens to the objects in the chart's folder crds.
	CRDs CRDPolicy
	// DisableOpenAPIValidation is as in [InstallOptions].
	DisableOpenAPIValidation bool
	// DisableSchemaValidation is as in [InstallOptions].
	DisableSchemaValidation bool
}

// RollbackOptions are the options of a rollback. They do not shape the release.
type RollbackOptions struct {
	// Timeout bounds the whole rollback, including hooks. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks skips the hooks.
	DisableHooks bool
	// Force replaces objects instead of patching them.
	Force bool
	// CleanupOnFail deletes the objects that a failed rollback created.
	CleanupOnFail bool
}

// UninstallOptions are the options of an uninstallation. They do not shape the release.
type UninstallOptions struct {
	// Timeout bounds the whole uninstallation, including hooks. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks skips the hooks.
	DisableHooks bool
	// KeepHistory keeps Helm's records of the release, marked as uninstalled.
	KeepHistory bool
	// Propagation is the deletion propagation for the dependents of deleted objects. Empty means background.
	Propagation metav1.DeletionPropagation
	// Wait makes the uninstallation wait, within Timeout, until the objects no longer exist. This includes the work of
	// finalizers of other controllers. If objects still exist after Timeout, the action fails. The record then still has
	// the status uninstalling, so the next uninstallation waits again.
	Wait bool
}

// TestOptions are the options of the chart's tests. They do not shape the release.
type TestOptions struct {
	// Timeout bounds all tests together. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Only and Except are names of tests that run, or do not run. An empty Only means all tests.
	Only, Except []string
}

type (
	// PostRender changes the objects that a chart rendered.
	PostRender = rendering.PostRender
	// Patch is one patch of a PostRender.
	Patch = rendering.Patch
	// ImageOverride replaces parts of the references to an image.
	ImageOverride = rendering.ImageOverride
)

// SkipsSchema reports whether an action skips the validation of the values with the chart's schema.
func (o Options) SkipsSchema(action Action) bool {
	if action.Installs() {
		return o.Install.DisableSchemaValidation
	}
	return o.Upgrade.DisableSchemaValidation
}

// ActionTimeout returns Timeout or its default.
func (o InstallOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout returns Timeout or its default.
func (o UpgradeOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout returns Timeout or its default.
func (o RollbackOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout returns Timeout or its default.
func (o UninstallOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout returns Timeout or its default.
func (o TestOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

func (o InstallOptions) createNamespace() bool {
	return o.CreateNamespace == nil || *o.CreateNamespace
}

// HistoryLimit returns MaxHistory or its default; zero means no limit.
func (o UpgradeOptions) HistoryLimit() int {
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

// shapingOptions are the options that affect what Helm writes, with defaults filled in. So an option with its default
// value has the same digest as an option that is not set. If a field is added later, the JSON must omit the field when
// it has its default value. Otherwise a new version of the manager would upgrade every release in every cluster.
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

	NamespaceLabels      map[string]string `json:"namespaceLabels,omitempty"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	InstallReplaceCRDs   bool              `json:"installReplaceCRDs,omitempty"`
	InstallSkipSchema    bool              `json:"installSkipSchema,omitempty"`
	UpgradeCRDs          CRDPolicy         `json:"upgradeCRDs,omitempty"`
	UpgradeSkipSchema    bool              `json:"upgradeSkipSchema,omitempty"`
	UpgradeValues        ValuesPolicy      `json:"upgradeValues,omitempty"`
}

// OptionsDigest returns the sha256, as hex digits, of the options that shape the release. It ignores timeouts and the
// options of rollbacks, tests and uninstallations, because a change of these does not require an upgrade.
// [Options].PostRender has its own digest.
func OptionsDigest(o Options) string {
	shaping := shapingOptions{
		InstallDisableHooks:   o.Install.DisableHooks,
		InstallKeepNamespace:  !o.Install.createNamespace(),
		InstallSkipCRDs:       o.Install.CRDs == CRDsSkip,
		InstallTakeOwnership:  o.Install.TakeOwnership,
		InstallSkipValidation: o.Install.DisableOpenAPIValidation,
		UpgradeDisableHooks:   o.Upgrade.DisableHooks,
		UpgradeForce:          o.Upgrade.Force,
		UpgradeCleanupOnFail:  o.Upgrade.CleanupOnFail,
		UpgradeTakeOwnership:  o.Upgrade.TakeOwnership,
		UpgradeSkipValidation: o.Upgrade.DisableOpenAPIValidation,
		NamespaceLabels:       o.Install.NamespaceLabels,
		NamespaceAnnotations:  o.Install.NamespaceAnnotations,
		InstallReplaceCRDs:    o.Install.CRDs == CRDsCreateReplace,
		InstallSkipSchema:     o.Install.DisableSchemaValidation,
		UpgradeCRDs:           o.Upgrade.CRDs,
		UpgradeSkipSchema:     o.Upgrade.DisableSchemaValidation,
		UpgradeValues:         o.Upgrade.Values,
	}
	if n := o.Upgrade.HistoryLimit(); n != DefaultMaxHistory {
		shaping.UpgradeMaxHistory = &n
	}
	// Marshalling booleans, numbers, strings and maps of strings cannot fail.
	data, _ := json.Marshal(shaping)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
