// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

// The limits of a rendering. The manager renders for all tenants, so one template must not exhaust it.
const (
	// maxTemplateBytes is the maximum size of one template. The API server has a limit for whole objects that is only a
	// few times higher.
	maxTemplateBytes = 256 << 10

	// maxDocumentBytes is the maximum size of spec.values as JSON, of one valuesFrom document, and of the output of
	// valuesTemplate. Helm stores values in a Secret of at most 1 MiB.
	maxDocumentBytes = 1 << 20

	// MaxSourceBytes is the maximum total size of the values sources in a Spec that all Clusters share, with expanded YAML
	// aliases. maxSourceNodes is the maximum number of their values: all of them stay in memory, with up to 300 bytes
	// each. Many sources may have the same short text. Sources of one Cluster are charged to the budget of its rendering.
	MaxSourceBytes = 32 << 20
	maxSourceNodes = 2 * maxNodes

	// MaxClusterBytes is the maximum total size of the values sources of one Cluster. It is the whole budget.
	MaxClusterBytes = maxWork

	// maxPathSteps is the maximum number of keys and indices in a targetPath. maxPathIndex is the maximum index.
	maxPathSteps, maxPathIndex = 32, 999

	// maxPostRenderItems is the maximum number of patches, images, labels and annotations. The API has the same limit
	// for each spec.postRender.
	maxPostRenderItems = 64

	// maxValueBytes is the maximum size of the arguments and of the result of one function call. It ends a loop that
	// doubles a string.
	maxValueBytes = 1 << 20

	// maxDepth is the maximum nesting of values. It protects the stack from recursion. Charts stay below 20.
	maxDepth = 100

	// maxNodes is the maximum number of values in one document after the expansion of its YAML aliases.
	maxNodes = 100_000

	// maxParsed is the maximum number of nodes of all templates of a Spec, and costTemplate is added for each template. A
	// program stays in memory while it is used: up to about 20 MiB with these limits.
	maxParsed, costTemplate = 100_000, 10

	// maxArguments is the maximum number of arguments of one call, because some functions multiply all of them.
	maxArguments = 256

	// maxWork is the budget of one rendering. The values of a typical CNI need a thousandth of the budget; a test
	// checks that they need less than a hundredth. The whole budget takes about a second on one core at most.
	maxWork = 16 << 20

	// The costs of operations. A byte of text costs 1. A value in a list or map costs costNode, or only costCopied if the
	// list or map is copied for one template and then dropped. A function call costs costCall. A loop iteration costs
	// costStep, and costParsed for each parsed node in the loop. costParsed covers the functions of text/template that are
	// not wrapped.
	costNode   = 32
	costCopied = 4
	costCall   = 256
	costStep   = 256
	costParsed = 64
)
