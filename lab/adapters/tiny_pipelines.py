"""Writes whole pipelines of diffusers with random weights, a few hundred kilobytes each: `PYTHON … FOLDER`.

Run under the interpreter that has the packages. The classes and the files are the real ones; only the sizes
are not. The tokenizer is trained on a few sentences, for none can be downloaded.
"""

import sys
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3Config,
    Qwen3Model,
)

TEXTS = ["a crane over the water", "一只鹤飞过水面", "system user assistant Describe the image by detailing"]
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH = 32
LANGUAGE_MODEL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
"""What reads the prompt, as small as it can be, whichever model it is."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes and a few pairs of them, with the signs around a turn of a chat."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bare.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=4096
    )
    made.chat_template = CHAT
    return made


def z_image() -> ZImagePipeline:
    """Z-Image: its transformer reads the last but one layer of a Qwen3."""
    torch.manual_seed(0)
    words = tokenizer()
    text_encoder = Qwen3Model(
        Qwen3Config(
            **LANGUAGE_MODEL,
            vocab_size=len(words),
            intermediate_size=32,
            head_dim=8,
            max_position_embeddings=1024,
        )
    )
    transformer = ZImageTransformer2DModel(
        all_patch_size=(2,),
        all_f_patch_size=(1,),
        in_channels=16,
        dim=WIDTH,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=16,
        rope_theta=256.0,
        axes_dims=[8, 4, 4],
        axes_lens=[1536, 512, 512],
    )
    # Parameters that training would have moved from zero.
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=16,
        norm_num_groups=4,
        scaling_factor=0.3611,
        shift_factor=0.1159,
    )
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    return ZImagePipeline(
        scheduler=scheduler, vae=vae, text_encoder=text_encoder, tokenizer=words, transformer=transformer
    )


def qwen_image() -> QwenImagePipeline:
    """Qwen-Image: guided by true_cfg_scale, away from a negative prompt."""
    torch.manual_seed(0)
    words = tokenizer()
    text_encoder = Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config={
                **LANGUAGE_MODEL,
                "vocab_size": len(words),
                "intermediate_size": 16,
                "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
                "rope_theta": 1000000.0,
            },
            vision_config={
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_heads": 2,
                "out_hidden_size": 16,
            },
        )
    )
    transformer = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        guidance_embeds=False,
        axes_dims_rope=(8, 4, 4),
    )
    vae = AutoencoderKLQwenImage(
        base_dim=24,
        z_dim=4,
        dim_mult=[1, 2, 4, 4],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    scheduler = FlowMatchEulerDiscreteScheduler()
    return QwenImagePipeline(
        scheduler=scheduler, vae=vae, text_encoder=text_encoder, tokenizer=words, transformer=transformer
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    z_image().save_pretrained(folder / "z-image", safe_serialization=True)
    qwen_image().save_pretrained(folder / "qwen-image", safe_serialization=True)
