fn main()->anyhow::Result<()>{ println!("{:?}", touchmark_vm::Kernel::selected()?); println!("{:?}", touchmark_vm::Tree::fetch()?); Ok(()) }
