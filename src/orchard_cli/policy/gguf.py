"""GGUF files as transformers checkpoints, dequantised."""

from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError, MissingExtra, installed


def import_gguf(file: str | Path, out: str | Path, *, dtype: str = "bfloat16") -> Path:
    """Write the model and tokenizer in `file` to the checkpoint directory `out`, which no longer needs `gguf`.

    Raises `ConfigError` if `out` is taken or the architecture is unknown, `DataError` if the file is no whole
    GGUF file, `MissingExtra` without the packages.
    """
    file, out = Path(file), Path(out)
    for package in ("gguf", "accelerate"):
        if not installed(package):
            raise MissingExtra("importing a GGUF file", package, "gguf")
    _check(file)
    if out.exists():
        raise ConfigError(f"{out} is already there", hint="choose another output folder, or remove it")
    from . import weights

    model, tokenizer = _read(file, dtype)
    _forget_quantiser(model)
    if tokenizer.chat_template is None:
        raise DataError(f"{file} has no chat template", hint="take an instruct model")
    return weights.save(model, tokenizer, out)


def _check(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            magic = opened.read(4)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}", hint="name a GGUF file") from error
    if magic != b"GGUF":
        raise DataError(
            f"{file} is not a GGUF file: it starts with {magic!r}", hint="a folder of transformers needs no import"
        )


def _read(file: Path, dtype: str) -> tuple[Any, Any]:
    import transformers
    from transformers.utils.logging import disable_progress_bar

    from .weights import number_format

    disable_progress_bar()
    settings: dict[str, Any] = {"gguf_file": file.name, "dtype": number_format(dtype)}
    if config := getattr(transformers, "GgufConfig", None):  # newer releases keep the weights packed unless told
        settings["quantization_config"] = config(dequantize=True)
    folder = str(file.parent.resolve())
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **settings)
    except Exception as error:  # noqa: BLE001 - boundary: a foreign file, and readers that raise anything
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "not supported" in said:
            raise ConfigError(f"{file}: {said}", hint="this transformers cannot read the architecture") from error
        raise DataError(f"{file} cannot be read: {said}", hint="is the file whole?") from error
    return model, tokenizer


def _forget_quantiser(model: Any) -> None:
    """A dequantised model still says that it is quantised; saved so, it could not be loaded again."""
    model.hf_quantizer = None
    model.is_quantized = False
    for holder, name in ((model, "quantization_method"), (model.config, "quantization_config")):
        if hasattr(holder, name):
            delattr(holder, name)
