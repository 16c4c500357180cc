"""Commands of this domain beside the stages."""
