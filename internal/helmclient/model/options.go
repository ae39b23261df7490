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
	// DefaultTimeout is how long an action may take where its options don't say.
	DefaultTimeout = 5 * time.Minute
	// DefaultMaxHistory is the number of revisions that Helm keeps where the options don't say.
	DefaultMaxHistory = 10
)

// Options are how the actions on a release are carried out. The zero value holds the defaults.
type Options struct {
	Install   InstallOptions
	Upgrade   UpgradeOptions
	Rollback  RollbackOptions
	Uninstall UninstallOptions
	Test      TestOptions
	// PostRender changes what the chart rendered. It is rendered for the cluster; its digest is [Desired].PostRenderDigest.
	PostRender *PostRender
	// SecretValues are those values, in maps and lists of any depth, that came from Secrets. None of their texts appears in
	// an error, whatever its key. They shape nothing.
	SecretValues []any
	// Admit, if set, is asked before an upgrade or a rollback begins that would delete objects. If it returns an error, the action fails with
	// it, of the kind ErrRefused, and nothing was begun. It shapes nothing.
	Admit func(Loss) error
	// Progress, if set, is told in a few words what an action is at, for example which hook it waits for. It must return
	// at once and may be called from any goroutine. It shapes nothing.
	Progress func(what string)
	// Stop, if set, ends what an action waits for when it is done, a hook or a test. The action fails then as
	// if it had taken too long, and says the cause. Requests under way are not cut off, and an uninstallation goes on. It
	// shapes nothing.
	Stop context.Context
}

// CRDPolicy tells what happens to the objects in the chart's folder crds.
type CRDPolicy string

const (
	// CRDsCreate creates those that do not exist. It is the default.
	CRDsCreate CRDPolicy = ""
	// CRDsSkip leaves them out.
	CRDsSkip CRDPolicy = "Skip"
	// CRDsCreateReplace creates those that do not exist and replaces the others.
	CRDsCreateReplace CRDPolicy = "CreateReplace"
)

// ValuesPolicy tells what happens to the values of the revision before an upgrade.
type ValuesPolicy string

const (
	// ValuesReset forgets them. It is the default.
	ValuesReset ValuesPolicy = ""
	// ValuesReuse lays the wanted values over all values of the revision before, its chart's defaults included.
	ValuesReuse ValuesPolicy = "Reuse"
	// ValuesResetThenReuse lays the wanted values over those given to the revision before, and these over the new chart's
	// defaults.
	ValuesResetThenReuse ValuesPolicy = "ResetThenReuse"
)

// InstallOptions are the options of an install.
type InstallOptions struct {
	// Timeout bounds the whole install, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// CreateNamespace creates the release's namespace where it is missing. Nil means true, or false where the
	// target is impersonated.
	CreateNamespace *bool
	// NamespaceLabels and NamespaceAnnotations are set on the release's namespace with every install and upgrade.
	NamespaceLabels, NamespaceAnnotations map[string]string
	// CRDs tells what happens to what is in the chart's folder crds.
	CRDs CRDPolicy
	// TakeOwnership adopts objects that exist already, whoever made them.
	TakeOwnership bool
	// DisableOpenAPIValidation leaves out the check of the objects against the cluster's schema. Clusters since
	// Kubernetes 1.25 check by themselves, there this changes nothing.
	DisableOpenAPIValidation bool
	// DisableSchemaValidation leaves out the comparison of the values with the chart's schema.
	DisableSchemaValidation bool
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
	// Values tells what happens to the values of the revision before.
	Values ValuesPolicy
	// CRDs tells what happens to what is in the chart's folder crds.
	CRDs CRDPolicy
	// DisableOpenAPIValidation is as in [InstallOptions].
	DisableOpenAPIValidation bool
	// DisableSchemaValidation is as in [InstallOptions].
	DisableSchemaValidation bool
}

// RollbackOptions are the options of the return to an earlier revision. They shape nothing.
type RollbackOptions struct {
	// Timeout bounds the whole rollback, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// Force replaces objects rather than patching them.
	Force bool
	// CleanupOnFail deletes the objects that a failed rollback had newly created.
	CleanupOnFail bool
}

// UninstallOptions are the options of an uninstall. They shape nothing.
type UninstallOptions struct {
	// Timeout bounds the whole uninstall, hooks included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// DisableHooks leaves the hooks out.
	DisableHooks bool
	// KeepHistory keeps Helm's records of the release, marked as uninstalled.
	KeepHistory bool
	// Propagation is what happens to the dependents of deleted objects. Empty means background.
	Propagation metav1.DeletionPropagation
	// Wait waits, within Timeout, until the objects are gone, finalizers of others included. That they are not is an error, and
	// the release is gone all the same.
	Wait bool
}

// TestOptions are the options of the chart's tests. They shape nothing.
type TestOptions struct {
	// Timeout bounds all tests together. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Only and Except are names of tests; nothing in Only means all.
	Only, Except []string
}

type (
	// PostRender is what changes the objects that a chart rendered.
	PostRender = rendering.PostRender
	// Patch is one patch of a PostRender.
	Patch = rendering.Patch
	// ImageOverride replaces parts of the references of an image.
	ImageOverride = rendering.ImageOverride
)

// SkipsSchema says whether an action compares the values with the chart's schema.
func (o Options) SkipsSchema(action Action) bool {
	if action == ActionInstall || action == ActionRecoverThenInstall {
		return o.Install.DisableSchemaValidation
	}
	return o.Upgrade.DisableSchemaValidation
}

// ActionTimeout is Timeout or its default.
func (o InstallOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout is Timeout or its default.
func (o UpgradeOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout is Timeout or its default.
func (o RollbackOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout is Timeout or its default.
func (o UninstallOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

// ActionTimeout is Timeout or its default.
func (o TestOptions) ActionTimeout() time.Duration { return timeoutOr(o.Timeout) }

func (o InstallOptions) createNamespace() bool {
	return o.CreateNamespace == nil || *o.CreateNamespace
}

// HistoryLimit is MaxHistory or its default; 0 for no limit.
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

	NamespaceLabels      map[string]string `json:"namespaceLabels,omitempty"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	InstallReplaceCRDs   bool              `json:"installReplaceCRDs,omitempty"`
	InstallSkipSchema    bool              `json:"installSkipSchema,omitempty"`
	UpgradeCRDs          CRDPolicy         `json:"upgradeCRDs,omitempty"`
	UpgradeSkipSchema    bool              `json:"upgradeSkipSchema,omitempty"`
	UpgradeValues        ValuesPolicy      `json:"upgradeValues,omitempty"`
}

// OptionsDigest returns the sha256, as hex digits, of those options that shape what Helm writes. Timeouts and the
// options of rollbacks, tests and uninstalls are not among them: changing those is no reason for an upgrade. Nor is what
// has a digest of its own, [Options].PostRender.
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
	// A struct of booleans, numbers, texts and maps of texts always marshals.
	data, _ := json.Marshal(shaping)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
